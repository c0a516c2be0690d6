// What a gateway of an Egress knows of its clients, by the product's own code;
// it has no tunnels.
import { TaskGroup } from "../../lib/async/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import type { KubeClient } from "../../lib/kube/mod.ts";
import type { NamespacedName } from "../../lib/names/mod.ts";
import { AnnouncedClients } from "../../roles/coil_egress/clients/announced_clients.ts";
import { noteChange } from "../../roles/coil_egress/clients/client_changes.ts";
import { ClientSet } from "../../roles/coil_egress/clients/client_set.ts";
import { ClientWatcher } from "../../roles/coil_egress/clients/client_watcher.ts";

/** As in `mod.ts` of coil-egress; clients announce nothing here. */
const CONFIRM_MS = 120_000;

/** A gateway that runs. */
export class ProductGateway {
  readonly #clients = new ClientSet({ families: FAMILIES });
  readonly #announced = new AnnouncedClients({
    clients: this.#clients,
    confirmMs: CONFIRM_MS,
    isConfirmerAway: () => Promise.resolve(false),
    onExpired() {},
  });
  readonly #watcher: ClientWatcher;
  readonly #group = new TaskGroup();
  #isSynced = false;

  constructor(client: KubeClient, egress: NamespacedName) {
    this.#watcher = new ClientWatcher({
      client,
      egress,
      onChange: (change) =>
        noteChange(change, {
          clients: this.#clients,
          announced: this.#announced,
        }),
    });
    this.#group.run(
      "clients",
      (signal) => this.#watcher.run(signal, () => this.#isSynced = true),
    );
    void this.#group.wait();
  }

  /** Addresses of the clients that it serves; none before it knows all of them. */
  get served(): string[] {
    return this.#isSynced ? [...this.#clients.addresses().keys()] : [];
  }

  kill(): void {
    this.#group.abort(new Error("killed"));
    this.#watcher[Symbol.dispose]();
    this.#announced[Symbol.dispose]();
  }
}
