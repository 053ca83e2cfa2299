#include "grille/text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Json = nlohmann::ordered_json;

std::string render(std::string_view source, Json variables = Json::object()) {
  ChatOptions options;
  options.variables = std::move(variables);
  options.now = std::tm{};
  options.now->tm_year = 124;
  options.now->tm_mon = 6;
  options.now->tm_mday = 26;
  return ChatTemplate(source, "<s>", "</s>").render(Json::array(), options);
}

std::string error_in(std::string_view source, ErrorCode code = ErrorCode::kInvalidArgument) {
  return error_of([&] { render(source); }, code);
}

TEST(ChatTemplate, EqualsEveryRenderedVector) {
  GRILLE_NEEDS_SHARED_DATA();
  const Json file = Json::parse(read_gzip(shared_data() / "tokenizers/vectors/chat_rendered.json"));
  int cases = 0;
  for (const Json& one : file["cases"]) {
    const std::string name = one["tokenizer"];
    const fs::path folder = shared_data() / "tokenizers" / name;
    const fs::path config = shared_data() / "tokenizers/chat-configs" / (name + ".tokenizer_config.json");
    std::string source;
    for (const fs::path& at :
         {folder / "tokenizer_config.json", folder / "tokenizer_config.json.gz", config}) {
      if (fs::exists(at)) source = nlohmann::json::parse(read_gzip(at))["chat_template"];
    }
    ASSERT_FALSE(source.empty()) << name;
    ChatOptions options;
    options.add_generation_prompt = one["add_generation_prompt"];
    options.variables["date_string"] = "26 Jul 2024";
    const std::string bos = one["bos_token"].is_string() ? one["bos_token"].get<std::string>() : "";
    options.now = std::tm{};
    options.now->tm_year = 124;
    options.now->tm_mon = 6;
    options.now->tm_mday = 26;
    EXPECT_EQ(ChatTemplate(source, bos, "").render(one["messages"], options),
              one["rendered"].get<std::string>())
        << name << " " << one["conversation"];
    ++cases;
  }
  EXPECT_EQ(cases, 40);
}

TEST(ChatTemplate, EverySharedTemplateRendersAConversation) {
  GRILLE_NEEDS_SHARED_DATA();
  const Json messages = {{{"role", "user"}, {"content", "Hi"}},
                         {{"role", "assistant"}, {"content", "Hello."}},
                         {{"role", "user"}, {"content", "Bye"}}};
  for (const auto& entry : fs::directory_iterator(shared_data() / "tokenizers/chat-templates")) {
    const std::string text = ChatTemplate(read_file(entry.path()), "<s>", "</s>").render(messages);
    EXPECT_LT(text.find("Hi"), text.find("Hello.")) << entry.path();
    EXPECT_NE(text.find("Bye"), std::string::npos) << entry.path();
  }
}

TEST(ChatTemplate, BlocksLeaveNoWhiteSpace) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
}

TEST(ChatTemplate, ValuesPrintAsPythonPrintsThem) {
  EXPECT_EQ(render("{{ true }} {{ none }} {{ x }} {{ 1.0 }} {{ 1e20 }} {{ 'a' ~ true ~ none }}",
                   {{"x", {1, "it's", nullptr, {{"k", false}}}}}),
            "True None [1, \"it's\", None, {'k': False}] 1.0 1e+20 aTrueNone");
}

TEST(ChatTemplate, UndefinedIsEmptyAndItsAttributesAreErrors) {
  EXPECT_EQ(render("[{{ nothing }}{{ messages.nothing }}]"), "[]");
  EXPECT_NE(error_in("a\n{{ nothing.at.all }}").find("line 2"), std::string::npos);
}

TEST(ChatTemplate, TojsonIsJsonDumps) {
  const Json x = {{"b", "é\"\n"}, {"a", {1, 2.5, true, nullptr}}, {"e", Json::array()}};
  EXPECT_EQ(render("{{ x | tojson }}", {{"x", x}}), R"({"b": "é\"\n", "a": [1, 2.5, true, null], "e": []})");
  EXPECT_EQ(render("{{ x | tojson(indent=2) }}", {{"x", {{"a", {1}}, {"e", Json::object()}}}}),
            "{\n  \"a\": [\n    1\n  ],\n  \"e\": {}\n}");
  EXPECT_EQ(render("{{ x | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) }}",
                   {{"x", {{"b", "😀"}, {"a", "<&>"}}}}),
            R"({"a":"<&>","b":"\ud83d\ude00"})");
}

TEST(ChatTemplate, PythonMethodsWork) {
  EXPECT_EQ(render("{{ ' a,b '.strip().split(',')[-1] }}{{ 'abc'[::-1] }}{{ 'x'.startswith('x') }}"
                   "{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{{ m.get('q', 'd') }}"
                   "{{ 'aXb'.replace('X', '-') }}{{ ', '.join(['p', 'q']) }}{{ '%s:%d' % ('n', 3) }}",
                   {{"m", {{"z", 1}, {"y", 2}}}}),
            "bcbaTruez=1;y=2;da-bp, qn:3");
}

TEST(ChatTemplate, LoopControlsNamespacesAndMacrosWork) {
  EXPECT_EQ(
      render("{% set ns = namespace(n=0) %}{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}"
             "{% if i == 5 %}{% break %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"
             "{% macro twice(x, y='!') %}{{ x }}{{ x }}{{ y }}{% endmacro %}{{ twice('ab') }}"),
      "8abab!");
}

TEST(ChatTemplate, GenerationBlocksPrintTheirBody) {
  EXPECT_EQ(render("a\n{% generation %}\nb\n{%- endgeneration -%}\nc{{ '{% generation %}' }}"),
            "a\nbc{% if true %}");
}

TEST(ChatTemplate, StrftimeNowTellsTheGivenTime) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
}

TEST(ChatTemplate, VariablesWinOverTheUsualOnes) {
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ enable_thinking }}",
                   {{"enable_thinking", false}, {"eos_token", "E"}}),
            "<s>ETrueFalse");
}

TEST(ChatTemplate, RaisedWordsReachTheUser) {
  EXPECT_EQ(error_in("{{ raise_exception('Only user and assistant roles are supported!') }}"),
            "chat template: Only user and assistant roles are supported!");
}

TEST(ChatTemplate, SyntaxErrorsNameTheLine) {
  const std::string message = error_in("ok\nok\n{% if %}", ErrorCode::kCorruptData);
  EXPECT_NE(message.find("line 3"), std::string::npos) << message;
  error_in("{% unknown_tag %}", ErrorCode::kCorruptData);
  error_in("{{ 'open", ErrorCode::kCorruptData);
  error_in(std::string("{{ '\xff' }}"), ErrorCode::kCorruptData);
  error_in(std::string(1 << 21, ' '), ErrorCode::kCorruptData);
}

TEST(ChatTemplate, NeedsAListOfMessagesNotNestedWithoutEnd) {
  const ChatTemplate one("{{ messages }}", "", "");
  error_of([&] { one.render(Json::object()); }, ErrorCode::kInvalidArgument);
  Json deep = Json::array();
  for (int i = 0; i < 100'000; ++i) deep = Json::array({std::move(deep)});
  error_of([&] { one.render(deep); }, ErrorCode::kInvalidArgument);
}

TEST(ChatTemplate, RendersFromManyThreads) {
  const ChatTemplate one("{% for m in messages %}{{ m.content }}{% endfor %}", "", "");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(8);
  for (std::size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        texts[t] = one.render({{{"role", "user"}, {"content", std::to_string(t)}}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < texts.size(); ++t) EXPECT_EQ(texts[t], std::to_string(t));
}

// Each ends in an error, in bounded time and memory (the test's own limits: see kMaxSeconds).
TEST(ChatTemplate, HostileTemplatesEndInAnError) {
  const std::vector<std::string> templates = {
      // loops: 10^8 and 10^15 iterations, the latter inside one filter
      "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
      "{% for i in range(100000000) %}{% endfor %}",
      "{% set n = 99999 %}{{ (range(n) * n * n) | list | length }}",
      "{% set n = 99999 %}{{ (range(n) * n) | join }}",
      // recursion
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      // memory: doubling by every operator that makes strings or lists
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
      "%}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor "
      "%}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ "
      "ns.x }}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% "
      "endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x | replace('a', 'aa') %}{% "
      "endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor "
      "%}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset "
      "%}{% endfor %}",
      "{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='a') %}"
      "{% for i in range(60) %}{% set ns.x = d(ns.x) %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% "
      "endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = '{}{}'.format(ns.x, ns.x) %}{% "
      "endfor %}",
      "{% set n = 50000000 %}{% set s = 'x' * n %}{{ ([s] * 1000) | tojson }}",
      "{% set n = 50000000 %}{% set s = 'x' * n %}{% set l = [s] * 1000 %}{{ l | tojson }}",
      "{% set n = 50000000 %}{% set s = 'x' * n %}{% set l = [s] * 1000 %}{{ l | map('upper') | list | "
      "length }}",
      "{% set n = 1000000000000 %}{{ 'x' * n }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{% set n = 1000000 %}{{ ('a\\n' * n) | indent(1000) }}",
      // work on one large value, again and again
      "{% set n = 30000000 %}{% set s = 'x' * n %}{% for i in range(99999) %}{% set t = s[::1] %}{% endfor "
      "%}",
      "{% set n = 30000000 %}{% set s = 'x' * n %}{% set t = s ~ '' %}{% for i in range(99999) %}{% if s == "
      "t %}{% endif %}{% endfor %}",
      "{% set n = 30000000 %}{% set s = 'x' * n %}{% for i in range(99999) %}{% if 'y' in s %}{% endif %}{% "
      "endfor %}",
      "{% set n = 30000000 %}{% set s = 'x' * n %}{% for i in range(99999) %}{% set t = s | upper | length "
      "%}{% endfor %}",
      "{% for i in range(99999) %}" + std::string(10'000, 'z') + "{% endfor %}",
  };
  for (const std::string& source : templates) {
    const auto start = std::chrono::steady_clock::now();
    const std::string message = error_in(source);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20.0) << source << " → " << message;
    if (std::getenv("GRILLE_TEST_VERBOSE"))
      fmt::print("{:6.3f} s {:.70} → {}\n", took.count(), source, message);
  }
}

// What the compiler itself would work on: constants it would compute, trees it would walk.
TEST(ChatTemplate, HostileSourcesEndAtCompilation) {
  const auto times = [](int count, std::string_view text) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  const std::vector<std::string> sources = {
      times(1000, "{{ 'x' * 99999999 }}"),
      times(1000, "{{ 'x' * 9999 * 9999 }}"),
      times(1000, "{{ 'x' * 10 ** 8 }}"),
      times(1000, "{{ 'x' * 1e8 }}"),
      "{{ [1] * 9999999999 == [1] * 9999999999 }}",
      "{{ 1" + times(400'000, "+1") + " }}",
      "{{ a" + times(400'000, "+a") + " }}",
      "{{ a" + times(200'000, "|e") + " }}",
      "{{ a" + times(200'000, ".a") + " }}",
      "{{ " + times(200'000, "(") + " }}",
      "{{ " + times(200'000, "[") + " }}",
      "{{ " + times(200'000, "not ") + "a }}",
      "{{ " + times(200'000, "-") + "1 }}",
      times(80'000, "{% if a %}"),
      "{% if a %}" + times(60'000, "{% elif b %}") + "{% endif %}",
      times(50'000, "{% for a in b %}"),
  };
  for (const std::string& source : sources) {
    const auto start = std::chrono::steady_clock::now();
    try {
      render(source);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20.0) << source.substr(0, 60);
    if (std::getenv("GRILLE_TEST_VERBOSE")) fmt::print("{:6.3f} s {:.60}\n", took.count(), source);
  }
}

TEST(ChatTemplate, OrdinaryArithmeticPassesTheLimits) {
  EXPECT_EQ(render("{{ ' ' * 4 }}|{{ '-' * (2 + 1) }}|{{ 86400 * 1000 * 1000 }}|{{ 2 ** 20 }}"),
            "    |---|86400000000|1048576");
}

TEST(ChatTemplate, ValuesThatHoldThemselvesOrNestDeeplyDoNotOverflowTheStack) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me }}{{ ns == ns }}"),
            "[<namespace>]True");
  // Lazy sequences of lazy sequences: each walk would go through all of them.
  for (const char* wrap : {"ns.x[::1]", "ns.x * 1", "ns.x | reverse", "ns.x | map('int')", "ns.x + []"}) {
    EXPECT_EQ(render(std::string("{% set ns = namespace(x=[1]) %}{% for i in range(50000) %}{% set ns.x = ") +
                     wrap + " %}{% endfor %}{{ ns.x | list }}"),
              "[1]")
        << wrap;
  }
  const std::string nest =
      "{% set ns = namespace(x=[]) %}{% for a in range(10) %}{% for i in range(19000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
  EXPECT_EQ(render(nest), "");
  for (const char* use :
       {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x | string }}", "{{ ns.x == [[]] }}",
        "{{ ns.x in [ns.x] }}", "{{ [ns.x, ns.x] | sort }}", "{{ [ns.x] | unique | list }}",
        "{{ ns.x ~ '' }}", "{{ ns.x | pprint }}", "{{ ns.x | upper }}", "{{ [ns.x] | join }}"}) {
    error_in(nest + use);
  }
  const std::string faster =
      "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = "
      "[[[[[[[[[[ns.x]]]]]]]]]] %}{% endfor %}";
  EXPECT_NE(error_in(faster).find("lists"), std::string::npos);
}

}  // namespace
}  // namespace grille::text::testing
