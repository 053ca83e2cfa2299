#include "grille/benchmark/roofline.h"

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/benchmark/sample_results.h"

namespace grille::benchmark {
namespace {

// "" if the tags of `xml` are balanced, attributes are quoted and no stray < or & is in the text; else where
// it is not.
std::string not_well_formed(const std::string& xml) {
  static const std::regex tag(
      R"re(<(/?)([a-z]+)((?: [a-zA-Z0-9:-]+="[^"<&]*(?:&(?:amp|lt|gt|quot);[^"<&]*)*")*) ?(/?)>)re");
  static const std::regex text(R"(([^<>&]|&(amp|lt|gt|quot);)*)");
  std::vector<std::string> open;
  auto at = xml.begin();
  for (std::smatch match; at != xml.end();) {
    const auto next = std::find(at, xml.end(), '<');
    if (!std::regex_match(std::string(at, next), text)) return "text: " + std::string(at, next);
    if (next == xml.end()) break;
    if (!std::regex_search(next, xml.end(), match, tag, std::regex_constants::match_continuous))
      return "tag: " + std::string(next, std::min(next + 80, xml.end()));
    if (match[1] == "/") {
      if (open.empty() || open.back() != match[2]) return "unbalanced </" + match[2].str() + ">";
      open.pop_back();
    } else if (match[4] != "/") {
      open.push_back(match[2]);
    }
    at = match[0].second;
  }
  return open.empty() ? "" : "not closed: <" + open.back() + ">";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(BenchmarkRoofline, TheTestSeesBrokenXml) {
  EXPECT_EQ(not_well_formed("<a b=\"1\"><c/>x &amp; y</a>"), "");
  for (const char* xml : {"<a>", "<a></b>", "<a>&</a>", "<a b=1/>", "<a b=\"<\"/>", "<a>1 < 2</a>"})
    EXPECT_NE(not_well_formed(xml), "") << xml;
}

TEST(BenchmarkRoofline, IsWellFormedAndHasAMarkForEveryPoint) {
  const std::string svg = roofline_svg(testing::sample_results());
  EXPECT_EQ(not_well_formed(svg), "");
  EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0u);
  // 14 points and 4 contenders in the legend: 2:4 as circles, dense as squares; one more rect is the ground.
  EXPECT_EQ(count(svg, "<circle "), 4u + 2u + 2u);
  EXPECT_EQ(count(svg, "<rect "), 4u + 4u + 2u + 1u);
  EXPECT_NE(svg.find("A &amp; B"), std::string::npos);
  EXPECT_NE(svg.find("8-bit 2:4 3958"), std::string::npos);
  EXPECT_NE(svg.find("4.50 TB/s"), std::string::npos);
}

TEST(BenchmarkRoofline, EveryMarkIsInsideTheAxes) {
  const std::string svg = roofline_svg(testing::sample_results());
  const std::regex mark("<circle cx=\"([0-9.-]+)\" cy=\"([0-9.-]+)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), mark), end; it != end; ++it) {
    EXPECT_GE(std::stod((*it)[1]), 70.0);
    EXPECT_LE(std::stod((*it)[1]), 960.0);
    EXPECT_GE(std::stod((*it)[2]), 50.0);
    EXPECT_LE(std::stod((*it)[2]), 540.0);
  }
}

TEST(BenchmarkRoofline, ADeviceWithoutKnownLimitsHasOnlyTheSlope) {
  LinearResults results = testing::sample_results();
  results.device.compute_capability = 120;
  const std::string svg = roofline_svg(results);
  EXPECT_EQ(not_well_formed(svg), "");
  EXPECT_EQ(svg.find("8-bit"), std::string::npos);
}

TEST(BenchmarkRoofline, NothingMeasuredIsAnError) { EXPECT_THROW(roofline_svg({}), Error); }

}  // namespace
}  // namespace grille::benchmark
