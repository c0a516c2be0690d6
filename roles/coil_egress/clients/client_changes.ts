import { nameText } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { AnnouncedClients } from "./announced_clients.ts";
import type { ClientPod } from "./client_pod.ts";
import type { ClientSet, SharedAddress } from "./client_set.ts";
import type { ClientPodChange } from "./slice_clients.ts";

const log = getLogger("pod-watcher");

/** Records a change of a client. */
export function noteChange(
  { uid, pod }: ClientPodChange,
  { clients, announced }: {
    readonly clients: Pick<ClientSet, "claim" | "forget">;
    readonly announced: Pick<AnnouncedClients, "noteStatus" | "forget">;
  },
): void {
  if (pod === undefined) {
    announced.forget(uid);
    clients.forget(uid);
    return;
  }
  clients.claim(uid, { source: "status", addresses: pod.addresses });
  // After the claim, so that an announced address is served without a gap.
  announced.noteStatus(pod);
}

/** Says which pods have one address. */
export function reportShared(
  { address, uids }: SharedAddress,
  pods: Iterable<ClientPod>,
): void {
  const names = [...pods].filter(({ uid }) => uids.includes(uid))
    .map(nameText);
  log.warn(
    "Several live pods have one address; keeping it until the last pod ends",
    { address, uids, pods: names },
  );
}
