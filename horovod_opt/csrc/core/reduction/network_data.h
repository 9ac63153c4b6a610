// A bucket, or this rank's part of it, as an allreduce over groups takes and gives it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

namespace horovod_opt {

using BucketReductionPtr = std::shared_ptr<const BucketReduction>;

// `bucket` is kept until the allreduce has ended, and what is kept with it.
inline AllreduceData WholeBucket(const BucketReductionPtr& bucket) {
  return {bucket->Bytes(),
          bucket->arithmetic(),
          [bucket](std::int64_t begin, std::int64_t end, char* to) {
            bucket->Contribute(begin, end, to);
          },
          [bucket](std::int64_t begin, std::int64_t end, const char* sums) {
            bucket->Write(begin, end, sums);
          },
          [bucket](char* sums, std::int64_t bytes) { bucket->ScaleSum(sums, bytes); },
          [bucket](std::int64_t begin, std::int64_t end) -> AllreduceData::Place {
            const auto [in, out] = bucket->Where(begin, end);
            return {in, out};
          }};
}

// The group's sums of `bytes` bytes, which become those of all groups in place.
inline AllreduceData PartOfBucket(const BucketReductionPtr& bucket, char* part,
                                  std::int64_t bytes) {
  return {bytes,
          bucket->arithmetic(),
          [part, bucket](std::int64_t begin, std::int64_t end, char* to) {
            std::memcpy(to, part + begin, static_cast<std::size_t>(end - begin));
          },
          [part, bucket](std::int64_t begin, std::int64_t end, const char* sums) {
            std::memcpy(part + begin, sums, static_cast<std::size_t>(end - begin));
          },
          [bucket](char* sums, std::int64_t bytes_of) { bucket->ScaleSum(sums, bytes_of); },
          [part, bucket](std::int64_t begin, std::int64_t) -> AllreduceData::Place {
            return {part + begin, part + begin};
          }};
}

}  // namespace horovod_opt
