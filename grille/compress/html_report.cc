#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grille/compress/inspection.h"

namespace grille::compress {
namespace {

// The page reads its data from the JSON in the element `data`; `</` is escaped there, so that no name in a
// checkpoint can end the element.
constexpr const char* kPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8884; }}
th:first-child, td:first-child, td.text {{ text-align: left; }}
canvas {{ width: 72px; height: 36px; image-rendering: pixelated; border: 1px solid #8886; }}
pre {{ overflow-x: auto; padding: 1rem; background: #8881; }}
.bad {{ color: #c33; font-weight: bold; }}
</style></head><body>
<h1>{title}</h1>
<p id="summary"></p>
<table><thead><tr><th>layer</th><th>shape</th><th>format</th><th>dtype</th><th>bytes</th><th>zeros</th>
<th>violations</th><th>non-zeros, by place</th></tr></thead><tbody id="layers"></tbody></table>
<h2>Provenance</h2><pre id="provenance"></pre>
<script type="application/json" id="data">{data}</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const total = data.layers.reduce((sum, l) => sum + l.stored_bytes, 0);
document.getElementById("summary").textContent =
  `${{data.architecture}}, ${{data.parameters.toLocaleString()}} parameters, ` +
  `${{(data.file_bytes / 1e6).toFixed(1)}} MB in files, ` +
  `${{(8 * total / data.parameters).toFixed(2)}} bits a parameter in weights`;
document.getElementById("provenance").textContent = JSON.stringify(data.provenance, null, 2);
const body = document.getElementById("layers");
for (const layer of data.layers) {{
  const row = body.insertRow();
  const cell = (text, name) => {{ const c = row.insertCell(); c.textContent = text; if (name) c.className = name; }};
  cell(layer.name);
  cell(layer.shape.join(" × "));
  cell(layer.format, "text");
  cell(layer.dtype, "text");
  cell(layer.stored_bytes.toLocaleString());
  cell((100 * layer.sparsity).toFixed(2) + " %");
  cell(layer.violations, layer.violations > 0 ? "bad" : "");
  const canvas = document.createElement("canvas");
  const side = canvas.width = canvas.height = data.side;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `share of non-zeros in ${{side * side}} parts of ${{layer.name}}`);
  const image = canvas.getContext("2d").createImageData(side, side);
  layer.density.forEach((d, i) => image.data.set([40 + 190 * (1 - d), 60 + 150 * (1 - d), 200, 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
  row.insertCell().append(canvas);
}}
</script></body></html>
)html";

std::string escape_markup(std::string text) {
  for (const auto& [from, to] : {std::pair{"&", "&amp;"}, std::pair{"<", "&lt;"}, std::pair{">", "&gt;"}}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
      text.replace(at, 1, to);
  }
  return text;
}

}  // namespace

std::string html_report(const Inspection& inspection, const std::string& title) {
  nlohmann::json data = {{"architecture", inspection.architecture}, {"parameters", inspection.parameters},
                         {"file_bytes", inspection.file_bytes},     {"side", kDensitySide},
                         {"layers", nlohmann::json::array()},       {"provenance", nullptr}};
  if (inspection.provenance) data["provenance"] = checkpoint::to_json(*inspection.provenance);
  for (const LayerInspection& layer : inspection.layers) {
    nlohmann::json density = nlohmann::json::array();
    for (const float value : layer.density) density.push_back(static_cast<int>(value * 1000 + 0.5f) / 1000.0);
    data["layers"].push_back({{"name", layer.name},
                              {"shape", {layer.rows, layer.cols}},
                              {"format", layer.format},
                              {"dtype", layer.dtype},
                              {"stored_bytes", layer.stored_bytes},
                              {"sparsity", layer.sparsity},
                              {"violations", layer.violations},
                              {"density", density}});
  }
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return fmt::format(fmt::runtime(kPage), fmt::arg("title", escape_markup(title)), fmt::arg("data", text));
}

}  // namespace grille::compress
