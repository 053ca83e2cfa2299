#include "grille/checkpoint/safetensors.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "grille/checkpoint/safetensors_dtype.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file with this header and so many zero bytes.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, '\0');
}

std::string open_error(const std::string& contents) {
  return error_of([&] { SafetensorsSource(std::as_bytes(std::span(contents)), "f"); });
}

std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

const std::vector<DType> kAllDTypes = {
    DType::kFloat64,    DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3,
    DType::kFloat8E5M2, DType::kInt64,   DType::kInt32,   DType::kInt16,    DType::kInt8,
    DType::kUInt64,     DType::kUInt32,  DType::kUInt16,  DType::kUInt8,    DType::kBool};

TEST(Safetensors, EveryDtypeComesBackAsItWasWritten) {
  const ScratchDirectory directory;
  std::vector<TensorSpec> specs;
  for (const DType dtype : kAllDTypes) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {3}, {0, 4}, {5, 3}, {2, 3, 4}}) {
      specs.push_back({std::string(dtype_name(dtype)) + shape_text(shape), dtype, shape});
    }
  }
  const fs::path path = directory / "a.safetensors";
  SafetensorsWriter writer(path, specs, {{"note", "a \"quoted\" line\n"}});
  for (auto spec = specs.rbegin(); spec != specs.rend(); ++spec) {  // any order
    writer.write(spec->name,
                 counting_bytes(static_cast<std::size_t>(make_tensor_info(spec->dtype, spec->shape)->bytes)));
  }
  EXPECT_FALSE(fs::exists(path));
  writer.finish();
  EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(path)), writer.file_bytes());
  EXPECT_EQ(SafetensorsWriter::size_of(specs, {{"note", "a \"quoted\" line\n"}}), writer.file_bytes());
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);

  const SafetensorsSource source(path);
  EXPECT_EQ(source.tensors().size(), specs.size());
  EXPECT_EQ(source.metadata().at("note"), "a \"quoted\" line\n");
  EXPECT_EQ(source.metadata().at("format"), "pt");
  EXPECT_EQ(source.file_bytes(), writer.file_bytes());
  for (const TensorSpec& spec : specs) {
    EXPECT_EQ(source.info(spec.name).dtype, spec.dtype);
    EXPECT_EQ(source.info(spec.name).shape, spec.shape);
    std::vector<std::byte> bytes(static_cast<std::size_t>(source.info(spec.name).bytes));
    source.read(spec.name, bytes);
    EXPECT_EQ(bytes, counting_bytes(bytes.size())) << spec.name;
    EXPECT_EQ(source.read_tensor(spec.name).sizes().vec(), spec.shape);
  }
}

TEST(Safetensors, HeaderIsPaddedAndTensorsAreAligned) {
  const ScratchDirectory directory;
  const std::vector<TensorSpec> specs = {
      {"b", DType::kUInt8, {3}}, {"a", DType::kFloat32, {1}}, {"c", DType::kInt64, {1}}};
  SafetensorsWriter writer(directory / "f", specs);
  for (const TensorSpec& spec : specs)
    writer.write(spec.name,
                 counting_bytes(static_cast<std::size_t>(make_tensor_info(spec.dtype, spec.shape)->bytes)));
  writer.finish();
  const MappedFile file(directory / "f");
  const SafetensorsHeader header = parse_safetensors_header(file.bytes(), "f");
  for (const TensorSpec& spec : specs)
    EXPECT_EQ(header.tensors.at(spec.name).offset % dtype_size(spec.dtype), 0u);
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes().data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
}

TEST(Safetensors, RowsAreReadAndWrittenByRange) {
  const ScratchDirectory directory;
  SafetensorsWriter writer(directory / "f", {{"t", DType::kInt16, {10, 3}}});
  const std::vector<std::byte> all = counting_bytes(60);
  writer.write_rows("t", 4, 10, std::span(all).subspan(24));
  writer.write_rows("t", 0, 4, std::span(all).first(24));
  EXPECT_THROW(writer.write_rows("t", 8, 11, std::span(all).first(18)), Error);
  EXPECT_THROW(writer.write_rows("t", 0, 1, std::span(all).first(7)), Error);
  EXPECT_THROW(writer.write("u", {}), Error);
  writer.finish();
  const SafetensorsSource source(directory / "f");
  std::vector<std::byte> rows(18);
  source.read_rows("t", 2, 5, rows);
  EXPECT_EQ(std::memcmp(rows.data(), all.data() + 12, 18), 0);
  EXPECT_THROW(source.read_rows("t", 5, 11, rows), Error);
  EXPECT_THROW(source.read_rows("t", -1, 2, rows), Error);
  EXPECT_THROW(source.read_rows("t", 2, 4, rows), Error);
  expect_contains(error_of([&] { source.info("x"); }), "f: tensor 'x' is missing");
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string good = R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  EXPECT_EQ(open_error(file_of(good, 16)), "no error");
  struct Case {
    std::string header;
    std::size_t data_bytes;
    const char* message;
  };
  const Case cases[] = {
      {good, 15, "has data_offsets 0 to 16 in a file with 15"},
      {good, 17, "its tensors end at byte"},
      {good + "x", 16, "not valid JSON"},
      {"[]", 0, "not a JSON object"},
      {R"({"t":3})", 0, "a member that is not an object"},
      {R"({"t":{"dtype":"F31","shape":[],"data_offsets":[0,0]}})", 0, "dtype 'F31', which is not supported"},
      {R"({"t":{"dtype":7,"shape":[],"data_offsets":[0,0]}})", 0, "dtype that is not a string"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8 bytes, but has 4"},
      {R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "possible size"},
      {R"({"t":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "possible size"},
      {R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "impossible shape"},
      {R"({"t":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "impossible shape"},
      {R"({"t":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0, "possible size"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "has data_offsets 1 to 0"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "two data_offsets"},
      {R"({"t":{"dtype":"U8","shape":[1]}})", 1, "needs dtype, shape and data_offsets"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1,
       "needs dtype, shape and data_offsets"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "'t' appears twice"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "inside the tensor before it"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "but the one before it ends at"},
      {R"({"__metadata__":{"a":1}})", 0, "something else than strings"},
      {R"({"__metadata__":{"a":{"b":"c"}}})", 0, "an object inside"},
      {"{\"t\":{\"dtype\":" + std::string(50000, '['), 0, "nested more than 3 deep"},
      {"{\"bad\ninput", 0, "not valid JSON"},
  };
  for (const Case& c : cases) {
    const std::string message = open_error(file_of(c.header, c.data_bytes));
    expect_contains(message, c.message);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Safetensors, RefusesLengthsThatDoNotFit) {
  expect_contains(open_error(""), "0 bytes are too few");
  expect_contains(open_error("1234567"), "7 bytes are too few");
  expect_contains(open_error(std::string(8, '\0')), "claims a header of 0 bytes");
  expect_contains(open_error(std::string(16, '\xff')), "claims a header of 18446744073709551615 bytes");
  std::string truncated = file_of(R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 0);
  truncated.resize(30);
  expect_contains(open_error(truncated), "truncated");
}

TEST(Safetensors, NamesOfMissingAndStrangeFilesAreInTheMessage) {
  const ScratchDirectory directory;
  expect_contains(error_of([&] { SafetensorsSource(directory / "none.safetensors"); }),
                  "none.safetensors: no such file");
  expect_contains(error_of([&] { SafetensorsSource{directory.path()}; }), "neither model.safetensors nor");
  ASSERT_EQ(::system(("mkfifo " + (directory / "pipe").string()).c_str()), 0);
  expect_contains(error_of([&] { SafetensorsSource(directory / "pipe"); }), "pipe: not a regular file");
}

class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    write_shard("one.safetensors", {"a", "b"});
    write_shard("two.safetensors", {"c"});
  }
  void write_shard(const std::string& file, const std::vector<std::string>& names) {
    std::vector<TensorSpec> specs;
    specs.reserve(names.size());
    for (const std::string& name : names) specs.push_back({name, DType::kUInt8, {4}});
    SafetensorsWriter writer(directory_ / file, specs);
    for (const std::string& name : names) writer.write(name, counting_bytes(4));
    writer.finish();
  }
  std::string open_with(const std::string& weight_map) {
    directory_.write("model.safetensors.index.json",
                     R"({"metadata":{"total_size":12},"weight_map":)" + weight_map + "}");
    return error_of([&] { SafetensorsSource{directory_.path()}; });
  }
  ScratchDirectory directory_;
};

TEST_F(Sharded, ReadsAllShards) {
  EXPECT_EQ(open_with(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})"), "no error");
  const SafetensorsSource source(directory_.path());
  EXPECT_EQ(source.tensors().size(), 3u);
  expect_contains(source.locate("c"), "two.safetensors: tensor 'c'");
}

TEST_F(Sharded, RefusesAnIndexThatDisagreesWithItsShards) {
  expect_contains(open_with(R"({"a":"one.safetensors","c":"two.safetensors"})"),
                  "'b' is in 'one.safetensors', but the index");
  expect_contains(open_with(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})"), "'b'");
  expect_contains(
      open_with(
          R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors","d":"two.safetensors"})"),
      "says that 'd' is in 'two.safetensors', but it is not");
  expect_contains(open_with(R"({"a":"three.safetensors"})"), "three.safetensors: no such file");
  expect_contains(open_with(R"({"a":"../one.safetensors"})"), "not in a file of this directory");
  expect_contains(open_with(R"({"a":".."})"), "not in a file of this directory");
  expect_contains(open_with(R"({"a":3})"), "not in a file of this directory");
  expect_contains(open_with("{}"), "weight_map is empty");
  expect_contains(open_with("7"), "has no weight_map");
  write_shard("two.safetensors", {"a"});
  expect_contains(open_with(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})"),
                  "is in one.safetensors too");
}

TEST(Safetensors, AFileThatShrinksWhileOpenIsAnErrorAndNotACrash) {
  const ScratchDirectory directory;
  SafetensorsWriter writer(directory / "f", {{"t", DType::kUInt8, {1 << 20}}});
  writer.write("t", counting_bytes(1 << 20));
  writer.finish();
  const SafetensorsSource source(directory / "f");
  fs::resize_file(directory / "f", 1000);
  expect_contains(error_of([&] { source.read_tensor("t"); }), "bytes long when it was opened");
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItIsNotFinished) {
  const ScratchDirectory directory;
  {
    SafetensorsWriter writer(directory / "f", {{"t", DType::kUInt8, {4}}});
    EXPECT_THROW(writer.finish(), Error);  // "t" is missing
  }
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(SafetensorsWriter, RefusesRepeatedAndImpossibleTensors) {
  const ScratchDirectory directory;
  expect_contains(
      error_of([&] {
        SafetensorsWriter(directory / "f", {{"t", DType::kUInt8, {1}}, {"t", DType::kUInt8, {1}}});
      }),
      "given twice");
  EXPECT_THROW(SafetensorsWriter(directory / "f", {{"t", DType::kUInt8, {-1}}}), Error);
  EXPECT_THROW(SafetensorsWriter(directory / "f", {{"\xff", DType::kUInt8, {1}}}), Error);
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(SafetensorsWriter, AFullDiskIsAnErrorThatNamesTheFile) {
  const ScratchDirectory directory;
  fs::create_symlink("/dev/full", directory / "f.partial");
  const std::string message = error_of([&] {
    SafetensorsWriter writer(directory / "f", {{"t", DType::kUInt8, {4}}});
    writer.write("t", counting_bytes(4));
    writer.finish();
  });
  expect_contains(message, "no space: ");
  expect_contains(message, "f: cannot be written: No space left on device");
  EXPECT_TRUE(fs::is_empty(directory.path()));
  expect_contains(error_of([&] { SafetensorsWriter(directory / "no/such/f", {}); }),
                  "no/such/f: cannot be written");
}

TEST(Safetensors, ReadsFilesOfOtherWriters) {
  const char* given = std::getenv("GRILLE_SHARED_DATA");
  const fs::path data =
      given != nullptr ? fs::path(given) : fs::path(GRILLE_SOURCE_DIR) / ".." / "shared" / "data";
  const fs::path fixtures = data / "safetensors-fixtures";
  if (!fs::exists(fixtures)) GTEST_SKIP() << "no shared data";
  struct Case {
    const char* file;
    DType dtype;
    std::vector<std::int64_t> shape;
  };
  const Case cases[] = {{"tensor-1d-int32", DType::kInt32, {3}},
                        {"tensor-2d-float64", DType::kFloat64, {2, 3}},
                        {"tensor-3d-float32", DType::kFloat32, {2, 2, 3}},
                        {"tensor-4d-float32", DType::kFloat32, {2, 3, 1, 3}}};
  for (const Case& c : cases) {
    const SafetensorsSource source(fixtures / (std::string(c.file) + ".safetensors"));
    EXPECT_EQ(source.info("embedding").dtype, c.dtype) << c.file;
    EXPECT_EQ(source.info("embedding").shape, c.shape) << c.file;
    EXPECT_EQ(source.read_tensor("embedding").sizes().vec(), c.shape);
  }
}

}  // namespace
}  // namespace grille::checkpoint
