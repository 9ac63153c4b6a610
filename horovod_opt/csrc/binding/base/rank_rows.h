// Collectives on texts, built on the one operation that every controller has.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// Every rank's row, by rank, on every rank. Rows may differ in length. O(ranks * longest row)
// bytes: for start and shutdown.
std::vector<std::string> GatherRows(horovod::common::Controller& controller,
                                    const std::string& row);

// The same by the number that a rank has in the job, where the controller is that of a process set.
std::map<int, std::string> GatherByRank(horovod::common::Controller& controller,
                                        const std::string& row);

// "rank 3: no memory" if `problem` is not empty on some rank, the same on every rank; else "".
std::string FirstProblem(horovod::common::Controller& controller, const std::string& problem);

// " Rank 0: ... Rank 1: ...", for messages; an empty row is a dash.
std::string Listed(const std::vector<std::string>& rows);

// Whether all ranks have the same row and none has `failed`. Three words, however many ranks.
bool AllEqual(horovod::common::Controller& controller, const std::string& row, bool failed);

}  // namespace horovod_opt
