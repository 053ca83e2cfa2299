#include "cli/command.h"

int main(int argc, char** argv) { return grille::cli::run_command_line(argc, argv); }
