// Written by tools/built_in_plans.py from files of `grille bench linear --tune`.
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::kernels {

const Matmul24PlanTable& built_in_24_plans() {
  static const Matmul24PlanTable table(std::vector<Matmul24PlanEntry>{});
  return table;
}

}  // namespace grille::kernels
