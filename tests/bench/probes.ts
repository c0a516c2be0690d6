// How long lib/probe takes to find an address free: for one, and for as many
// at once as a node starts pods, without the ADDs around them.
import { DETECT_TIMES } from "../../lib/coordinator/config/detect_options.ts";
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { findConflict, type ProbeLink } from "../../lib/probe/mod.ts";
import { addressIn, type CoordinatorLab } from "../netns/coordinator_lab.ts";
import { type Figure, figure } from "./figures.ts";

const ROUNDS = 5;
const FIRST_NUMBER = 20;

/** Asks for the address of each of `count` pods, in a lab of them. */
export async function probeFigures(
  lab: CoordinatorLab,
  count: number,
): Promise<Figure[]> {
  await using pods = new AsyncDisposableStack();
  const asks: (() => Promise<unknown>)[] = [];
  const closings: Promise<void>[] = [];
  for (let number = FIRST_NUMBER; number < FIRST_NUMBER + count; number++) {
    const { netns } = await lab.pod([{ name: "eth0", network: 6, number }]);
    pods.use(netns);
    const [row] = await netns.ipJson("link", "show", "eth0");
    const link: ProbeLink = {
      netns: pods.use(Netns.open(netns.path)),
      index: Number(row?.["ifindex"]),
      mac: String(row?.["address"]),
      later: (work) => void closings.push(work()),
    };
    const address = Address.parse(addressIn(6, "ipv4", number));
    asks.push(() => findConflict(link, address, DETECT_TIMES));
  }
  const timed = async (now: typeof asks) => {
    const startedMs = performance.now();
    await Promise.all(now.map((ask) => ask()));
    const elapsedMs = performance.now() - startedMs;
    await Promise.all(closings.splice(0));
    return elapsedMs;
  };
  const one: number[] = [];
  const all: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    one.push(await timed(asks.slice(0, 1)));
    all.push(await timed(asks));
  }
  return [
    figure("coordinator.probe", "ms", one),
    figure(`coordinator.probe.${count}`, "ms", all),
  ];
}
