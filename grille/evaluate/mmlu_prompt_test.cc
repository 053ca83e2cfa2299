#include "grille/evaluate/mmlu_prompt.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/evaluate/strip.h"

namespace grille::evaluate {
namespace {

const MmluQuestion kQuestion = {" Is it? \xC2\xA0\n", {"yes", " no ", "None", "4"}, 2};
constexpr MmluSubjectName kSubject = {"college_computer_science", "stem"};

TEST(MmluPrompt, IsEachProtocolsByteForByte) {
  const std::string choices = "\nA. yes\nB.  no \nC. None\nD. 4\nAnswer:";
  const std::string missing = "\nA. yes\nB.  no \nC. nan\nD. 4\nAnswer:";
  EXPECT_EQ(mmlu_question(MmluProtocol::kLmEval, kQuestion), "Is it?" + choices);
  EXPECT_EQ(mmlu_question(MmluProtocol::kHendrycks, kQuestion), " Is it? \xC2\xA0\n" + missing);
  EXPECT_EQ(mmlu_question(MmluProtocol::kSglang, kQuestion), " Is it? \xC2\xA0\n" + missing);

  const std::string header = "The following are multiple choice questions (with answers) about ";
  EXPECT_EQ(mmlu_shots(MmluProtocol::kLmEval, kSubject, {}), header + "college computer science.\n\n");
  EXPECT_EQ(mmlu_shots(MmluProtocol::kHendrycks, kSubject, {}), header + " college computer science.\n\n");
  EXPECT_EQ(mmlu_shots(MmluProtocol::kSglang, kSubject, {}), header + "college computer science.\n\n");
  const std::array shots = {kQuestion, kQuestion};
  EXPECT_EQ(mmlu_shots(MmluProtocol::kLmEval, kSubject, shots),
            header + "college computer science.\n\nIs it?" + choices + " C\n\nIs it?" + choices + " C\n\n");
}

TEST(MmluPrompt, ProtocolsHaveNames) {
  for (const MmluProtocol protocol :
       {MmluProtocol::kLmEval, MmluProtocol::kHendrycks, MmluProtocol::kSglang}) {
    EXPECT_EQ(protocol_from_name(protocol_name(protocol)), protocol);
  }
  EXPECT_THROW(protocol_from_name("helm"), Error);
}

TEST(Strip, TakesWhatPythonCallsWhiteSpace) {
  EXPECT_EQ(strip("\t \xE3\x80\x80 a b\xE2\x80\x89\x1f"), "a b");
  EXPECT_EQ(strip_end(" a \n"), " a");
  EXPECT_EQ(strip(" \n\xC2\x85"), "");
  EXPECT_EQ(strip("\xE2\x80\x8B"), "\xE2\x80\x8B");  // a zero-width space is none
}

}  // namespace
}  // namespace grille::evaluate
