// SPDX-License-Identifier: Apache-2.0
// fault:D1-D3: any bytes as a safetensors file. Refused with DataError, or every promise of the reader holds.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "io/safetensors.h"

namespace {

using namespace litespark;

void check(bool holds, const char* promise) {
  if (!holds) throw InternalError("fuzz_safetensors", promise);
}

void check_accepted(const SafetensorsFile& file, size_t file_bytes) {
  int64_t total = 0;
  SafetensorsHeader header{.tensors = file.tensors(), .metadata = file.metadata()};
  for (const SafetensorsTensor& tensor : file.tensors()) {
    check(tensor.bytes > 0 && static_cast<size_t>(tensor.bytes) <= file_bytes, "a tensor fits the file");
    total += tensor.bytes;
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    file.read(tensor.name, bytes);
    if (is_float_dtype(tensor.dtype)) {
      std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
      file.read_f32(tensor.name, values);
    }
  }
  check(static_cast<size_t>(total) < file_bytes, "tensors do not overlap");
  const std::string text = safetensors_header_text(header);
  check(text.size() % 8 == 0, "the header is padded");
  const SafetensorsHeader again = parse_safetensors_header(text, total, "again");
  check(again.metadata == header.metadata && again.tensors.size() == header.tensors.size(), "the header survives");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = ::memfd_create("fuzz", 0);
  if (::write(descriptor, data, size) == static_cast<ssize_t>(size)) {
    try {
      check_accepted(SafetensorsFile::open("/proc/self/fd/" + std::to_string(descriptor)), size);
    } catch (const DataError&) {
    }
  }
  ::close(descriptor);
  return 0;
}
