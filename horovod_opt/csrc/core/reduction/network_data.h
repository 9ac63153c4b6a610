// A bucket, or this rank's part of it, as an allreduce over groups takes and gives it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

namespace horovod_opt {

using BucketReductionPtr = std::shared_ptr<const BucketReduction>;

// `memory`: whatever has to stay until the allreduce has ended.
inline AllreduceData WholeBucket(const BucketReductionPtr& bucket,
                                 const std::shared_ptr<void>& memory) {
  return {bucket->Bytes(),
          bucket->arithmetic(),
          [bucket, memory](std::int64_t begin, std::int64_t end, char* to) {
            bucket->Contribute(begin, end, to);
          },
          [bucket, memory](std::int64_t begin, std::int64_t end, const char* sums) {
            bucket->Write(begin, end, sums);
          },
          [bucket, memory](char* sums, std::int64_t bytes) { bucket->ScaleSum(sums, bytes); },
          [bucket, memory](std::int64_t begin, std::int64_t end) -> AllreduceData::Place {
            const auto [in, out] = bucket->Where(begin, end);
            return {in, out};
          }};
}

// The group's sums of `bytes` bytes, which become those of all groups in place.
inline AllreduceData PartOfBucket(const BucketReductionPtr& bucket, char* part, std::int64_t bytes,
                                  const std::shared_ptr<void>& memory) {
  return {bytes,
          bucket->arithmetic(),
          [part, memory](std::int64_t begin, std::int64_t end, char* to) {
            std::memcpy(to, part + begin, static_cast<std::size_t>(end - begin));
          },
          [part, memory](std::int64_t begin, std::int64_t end, const char* sums) {
            std::memcpy(part + begin, sums, static_cast<std::size_t>(end - begin));
          },
          [bucket, memory](char* sums, std::int64_t bytes_of) { bucket->ScaleSum(sums, bytes_of); },
          [part, memory](std::int64_t begin, std::int64_t) -> AllreduceData::Place {
            return {part + begin, part + begin};
          }};
}

}  // namespace horovod_opt
