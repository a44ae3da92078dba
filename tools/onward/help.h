// What `onward --help` and `onward COMMAND --help` print.
#ifndef ONWARD_TOOLS_ONWARD_HELP_H_
#define ONWARD_TOOLS_ONWARD_HELP_H_

#include <string>

#include "backend/training/config.h"

namespace onward {

// The commands, and the way from a model to a trained one.
std::string Overview();

// What the command does, examples, then its flags by group. Lines of at most 100 columns.
std::string Help(Command command);

// The same of `onward operators`.
std::string OperatorsHelp();

// One line: "trains a model and writes the trained one".
std::string Summary(Command command);

}  // namespace onward

#endif  // ONWARD_TOOLS_ONWARD_HELP_H_
