/** The kernel's half of a gateway in tests: it is fit for gateways of the earlier version, too. */
import type { Address } from "../../lib/inet/mod.ts";
import type { DataPlane } from "../../roles/coil_egress/mod.ts";

/** A kernel that only keeps its clients, and refuses nothing. */
export class ClientsKernel implements DataPlane {
  readonly clients: Set<string> = new Set();
  /** Those that were taken out, at any time. */
  readonly removed: Set<string> = new Set();
  /** What was asked of it, in words. */
  readonly calls: string[] = [];
  /** Established flows of clients. */
  flows = 0;
  /** Clients that have as many connections as they may. */
  limited: readonly Address[] = [];
  limits: DataPlane["limits"] = { flows: 100, isSupported: true };
  /** It refuses so many times. */
  failures = 0;
  /** Each change waits for this. */
  gate: Promise<void> = Promise.resolve();

  async setClients(all: readonly Address[]): Promise<void> {
    await this.#begin(`set ${all.length}`);
    const before = [...this.clients];
    this.clients.clear();
    for (const address of all) this.clients.add(`${address}`);
    for (const address of before) {
      if (!this.clients.has(address)) this.removed.add(address);
    }
  }

  async changeClients(
    { add, remove }: Parameters<DataPlane["changeClients"]>[0],
  ): Promise<void> {
    await this.#begin(`add ${add.length} remove ${remove.length}`);
    for (const address of add) this.clients.add(`${address}`);
    for (const address of remove) {
      this.clients.delete(`${address}`);
      this.removed.add(`${address}`);
    }
  }

  readCounters(): ReturnType<DataPlane["readCounters"]> {
    const none = {};
    return Promise.resolve({
      masqueraded: none,
      invalid: none,
      unsolicited: none,
      foreignFou: none,
      limited: none,
    });
  }

  readFlows(): ReturnType<DataPlane["readFlows"]> {
    const { flows } = this;
    const none = { ports: [], clients: [] };
    return Promise.resolve({ flows, established: flows, ...none });
  }

  readConntrack(): ReturnType<DataPlane["readConntrack"]> {
    return Promise.resolve({ entries: 25, max: 100 });
  }

  readLimited(): ReturnType<DataPlane["readLimited"]> {
    return Promise.resolve(this.limited);
  }

  readNodes(): ReturnType<DataPlane["readNodes"]> {
    return Promise.resolve(3);
  }

  async #begin(call: string): Promise<void> {
    this.calls.push(call);
    await this.gate;
    if (this.failures-- > 0) throw new Error("the kernel refuses");
  }

  [Symbol.dispose](): void {}
}
