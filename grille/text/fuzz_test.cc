// Tokenizers, chat templates, documents and the files beside them against mutated input.
#include "grille/base/fuzz.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/text/chat_template.h"
#include "grille/text/csv.h"
#include "grille/text/detokenizer.h"
#include "grille/text/document_encoder.h"
#include "grille/text/ggml_vocabulary.h"
#include "grille/text/test_data.h"
#include "grille/text/text_files.h"
#include "grille/text/tokenizer.h"

namespace grille::text::testing {
namespace {

using Json = nlohmann::ordered_json;

// What a tokenizer that has been accepted is asked for.
void use(const Tokenizer& tokenizer) {
  for (const char* text : {"", "the low 12\n<s> é", "</s>▁the"}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    tokenizer.decode(ids, true);
    Detokenizer detokenizer(tokenizer);
    for (const std::int32_t id : ids) detokenizer.push(id);
    detokenizer.flush();
  }
}

// A vocabulary small enough that its settings are as large as its tokens.
GgmlVocabulary small_vocabulary(const std::string& model) {
  GgmlVocabulary v;
  v.model = model;
  v.tokens = {"t", "h", "e", "th", "the", "▁", "l", "<0x41>", "<unk>", "<s>", "</s>"};
  v.token_types = {1, 1, 1, 1, 1, 1, 1, 6, 2, 3, 3};
  v.unk_id = 8;
  v.bos_id = 9;
  v.eos_id = 10;
  if (model == "llama") {
    for (std::size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-static_cast<float>(i));
  } else {
    v.pre = "gpt-2";
    v.merges = {"t h", "th e"};
  }
  v.chat_template = "{{ messages }}";
  return v;
}

TEST(FuzzTokenizer, AnyTextGivesAnErrorOrATokenizer) {
  const std::string settings =
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":3,"content":"<s>","single_word":false,)"
      R"("lstrip":true,"rstrip":true,"normalized":true,"special":true}],"normalizer":{"type":"Sequence","normalizers":)"
      R"([{"type":"NFC"},{"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":true}]},"pre_tokenizer":)"
      R"({"type":"Split","pattern":{"Regex":"\\s+|\\w{1,3}"},"behavior":"Isolated","invert":false},"post_processor":)"
      R"({"type":"RobertaProcessing","sep":["<s>",3],"cls":["<s>",3],"trim_offsets":true,"add_prefix_space":true},)"
      R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":)";
  fuzz(
      {{tokenizer_json(small_vocabulary("gpt2")), tokenizer_json(small_vocabulary("llama")),
        settings + R"({"type":"WordPiece","unk_token":"u","continuing_subword_prefix":"##",)"
                   R"("max_input_chars_per_word":9,"vocab":{"u":0,"the":1,"##l":2}}})",
        settings +
            R"({"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["u",0.0],["t",-1.5],["he",-2.5]]}})",
        settings + R"({"type":"WordLevel","unk_token":"u","vocab":{"u":0,"the":1}}})"},
       {"{",           "}",         "[",    "]",     "\"",         ":",        ",",
        "null",        "true",      "-1",   "1e9",   "4294967295", "Sequence", "ByteFallback",
        "Precompiled", "Metaspace", "Fuse", "(a*)*", "{1000}",     "\\p{L}",   "\\u0000",
        "\xff"},
       // A regular expression is compiled and a model made, on a thread of its own: half a millisecond.
       /*cost=*/2},
      [](const std::string& text) {
        TokenizerConfig config;
        config.add_bos_token = text.size() % 2 == 0;  // the BOS that the file adds is kept, or taken away
        use(Tokenizer::from_json(text, std::move(config)));
      });
}

// The fields of a vocabulary as text, and back: 0x1E between fields, 0x1F between the items of one.
std::string fields_of(const GgmlVocabulary& v) {
  std::string text = v.model + "\x1e" + v.pre + "\x1e";
  const auto items = [&](const auto& list, const auto& write) {
    for (const auto& item : list) text += write(item) + "\x1f";
    text += "\x1e";
  };
  items(v.tokens, [](const std::string& token) { return token; });
  items(v.token_types, [](std::int32_t type) { return std::to_string(type); });
  items(v.scores, [](float score) { return std::to_string(score); });
  items(v.merges, [](const std::string& merge) { return merge; });
  items(std::vector{*v.bos_id, *v.eos_id, *v.unk_id}, [](std::int64_t id) { return std::to_string(id); });
  return text + v.chat_template;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  return parts;
}

GgmlVocabulary vocabulary_of(const std::string& text) {
  GgmlVocabulary v;
  std::vector<std::string> fields = split(text, '\x1e');
  fields.resize(7);
  v.model = fields[0];
  v.pre = fields[1];
  v.tokens = split(fields[2], '\x1f');
  for (const std::string& type : split(fields[3], '\x1f'))
    v.token_types.push_back(static_cast<std::int32_t>(std::strtoll(type.c_str(), nullptr, 10)));
  for (const std::string& score : split(fields[4], '\x1f'))
    v.scores.push_back(std::strtof(score.c_str(), nullptr));
  v.merges = split(fields[5], '\x1f');
  const std::vector<std::string> ids = split(fields[6], '\x1f');
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = std::strtoll(ids[i].c_str(), nullptr, 10);
    (i == 0 ? v.bos_id : i == 1 ? v.eos_id : i == 2 ? v.unk_id : i == 3 ? v.pad_id : v.eot_id) = id;
  }
  v.add_bos = text.size() % 3 == 0;
  v.add_eos = text.size() % 5 == 0;
  v.chat_template = text.substr(text.rfind('\x1e') + 1);
  return v;
}

TEST(FuzzGgmlVocabulary, AnyFieldsGiveAnErrorOrATokenizer) {
  fuzz({{fields_of(small_vocabulary("gpt2")), fields_of(small_vocabulary("llama"))},
        {"\x1e", "\x1f", "nan", "inf", "-1", "99999999999", "llama-bpe", "qwen2", "tekken", "default", " ",
         "▁", "<0x41>", "\xff", std::string(1, '\0')},
        /*cost=*/2},  // a tokenizer is made of each
       [](const std::string& text) {
         const GgmlVocabulary vocabulary = vocabulary_of(text);
         tokenizer_config_json(vocabulary);
         use(tokenizer_of(vocabulary));
       });
}

TEST(FuzzTokenizerFiles, AnyTextGivesAnErrorOrAConfiguration) {
  const TemporaryFolder folder;
  fuzz(
      {{R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"add_bos_token":true,"add_eos_token":null,)"
        R"("chat_template":[{"name":"default","template":"{{ messages }}"}],"eos_token_id":[1,2]})",
        R"({"eos_token_id":2,"chat_template":"x"})"},
       json_words(),
       /*cost=*/20},  // three files are written and read
      [&](const std::string& text) {
        // One text as each of the files that are read.
        for (const char* name :
             {"special_tokens_map.json", "tokenizer_config.json", "generation_config.json"})
          folder.write(name, text);
        read_tokenizer_config(folder.path());
      });
}

std::vector<std::string> jinja_words() {
  return {"{%",
          "%}",
          "{{",
          "}}",
          "{#",
          "#}",
          "{%-",
          "-%}",
          "{% for x in range(99999) %}",
          "{% endfor %}",
          "{% if x %}",
          "{% endif %}",
          "{% set x = x ~ x %}",
          "{% set x = [x, x] %}",
          "{% set ns.x = ns.x + ns.x %}",
          "{% macro f(x) %}{{ f(x) }}{% endmacro %}",
          "{{ f(1) }}",
          " recursive",
          "loop(x)",
          "namespace(x=1)",
          " * 99999",
          " ** 99",
          "[::-1]",
          "|tojson",
          "|join",
          "|map('upper')|list",
          ".split('')",
          ".items()",
          " is defined",
          " ~ ",
          "(",
          ")",
          "[",
          "]",
          "not ",
          "'",
          "\"",
          "\\",
          "1e308",
          "-9223372036854775808",
          "\n",
          "\xff"};
}

TEST(FuzzChatTemplate, AnySourceGivesAnErrorOrText) {
  const Json messages = {{{"role", "user"}, {"content", "Hi é\n"}},
                         {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", "Hello."}}}}}};
  ChatOptions options;
  options.now = std::tm{};
  fuzz({{"{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message.content | string | trim "
         "}}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
         "{% set ns = namespace(x='a', n=0) %}{% for i in range(9) %}{% if i == 3 %}{% continue %}{% endif %}"
         "{% set ns.x = ns.x ~ i %}{% endfor %}{{ ns.x[::-1] * 3 }}{{ messages | tojson(indent=2) }}",
         "{% macro f(x, y=2) %}{{ x }}{{ y }}{% endmacro %}{{ f('a') }}{% for k, v in messages[0].items() "
         "%}{{ k }}"
         "{% endfor %}{% for x in [[1], [2]] recursive %}{{ loop.index }}{{ loop(x) if x is iterable }}{% "
         "endfor %}",
         "{{ strftime_now('%d %b %Y') }}{{ 'a,b'.split(',') | join('-') }}{{ '%s' % 3 }}{{ '{}'.format(1) }}"
         "{{ messages | map(attribute='role') | list }}{% generation %}x{% endgeneration %}"
         "{{ raise_exception('no') if false else 1.5 // 0.4 }}"},
        jinja_words(),
        // Two threads with deep stacks; and a loop may take all the steps that a template has, half a second.
        /*cost=*/4},
       [&](const std::string& source) { ChatTemplate(source, "<s>", "</s>").render(messages, options); });
}

TEST(FuzzDocuments, AnyLinesGiveAnErrorOrIds) {
  const TemporaryFolder folder;
  TokenizerConfig config;
  config.chat_templates["default"] =
      "{% for m in messages %}{{ m.role }}{{ m['content'] | tojson }}{% endfor %}";
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json(small_vocabulary("llama")), config);
  fuzz({{"{\"text\": \"the low\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"é\"}], \"tools\": "
         "[]}\n",
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}]}"},
        json_words(),
        /*cost=*/4},  // a file and a rendering each
       [&](const std::string& text) {
         const fs::path file = folder.write("documents.jsonl", text);
         DocumentEncoder encoder(tokenizer, 64);
         for (const Document& document : read_documents(file)) encoder.encode(document, file);
       });
}

TEST(FuzzCsv, AnyTextGivesAnErrorOrRows) {
  fuzz({{"a,\"b, \"\"c\"\"\nd\",e\r\n\nf,g\n", "\"\",,\"x\"\n"},
        {",", "\"", "\"\"", "\n", "\r\n", "\r", ",\"", "\",\""}},
       [](const std::string& text) {
         for (const CsvRow& row : parse_csv(text, "x.csv")) ASSERT_FALSE(row.fields.empty());
       });
}

}  // namespace
}  // namespace grille::text::testing
