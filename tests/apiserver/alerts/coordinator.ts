// Faults of pods' further interfaces, and what looks like them.
import { COILD, from, growing, type Situation } from "./healthy.ts";

const failed = (command: string) =>
  `coil_coordinator_calls_total{${COILD},command="${command}",result="error"}`;
const firing = (command: string) => ({
  CoilCoordinatorFails: `node="n1",command="${command}"`,
});

/** What happens to the plugin coordinator. */
export const COORDINATOR: readonly Situation[] = [
  {
    name: "another machine has a pod's address, and its ADD is repeated",
    series: { [failed("ADD")]: growing(1) },
    fires: firing("ADD"),
  },
  {
    name: "the kernel refuses to remove a pair",
    series: { [failed("DEL")]: growing(1) },
    fires: firing("DEL"),
  },
  {
    name: "two ADDs came before the first answer of the API server",
    nearly: ["CoilCoordinatorFails"],
    series: { [failed("ADD")]: from(45, 2) },
  },
  {
    name: "CHECK reports pods that are older than their defaults",
    series: { [failed("CHECK")]: growing(1) },
  },
];
