/**
 * Starts coild, with an ADD or DEL of a pod that is named so making only its first changes of the kernel: then it
 * waits for ever, with all its locks. Netlink requests and sysctls are steps; a transaction of nf_tables is one.
 *
 * The kernel has then what a daemon leaves that is killed at that step, while other calls go on. So one SIGKILL
 * leaves every step of many pods behind.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { Connection } from "../../lib/netlink/connection/connection.ts";
import { main } from "../../roles/coild/mod.ts";
import { CniService } from "../../roles/coild/service/cni_service.ts";
import {
  type CutMethod,
  type CutRecord,
  STEPS_FILE_ENV,
  stepsOf,
} from "./cut_calls.ts";

const file = Deno.env.get(STEPS_FILE_ENV);
if (file === undefined) throw new TypeError(`${STEPS_FILE_ENV} is not set`);
const writeTextFile = Deno.writeTextFileSync;

class Call {
  readonly #method: CutMethod;
  readonly #pod: string;
  readonly #running = new Set<Promise<unknown>>();
  #left: number;

  constructor(method: CutMethod, pod: string) {
    this.#method = method;
    this.#pod = pod;
    this.#left = stepsOf(method, pod);
  }

  /** Returns how many of these steps may be made, the first ones. */
  take(texts: readonly string[]): number {
    const taken = texts.slice(0, this.#left);
    this.#left -= taken.length;
    for (const text of taken) this.record("step", text);
    return taken.length;
  }

  /** Makes changes that were taken. */
  async run<T>(change: () => Promise<T>): Promise<T> {
    const running = change();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Waits for ever, once the kernel has made all changes that were taken. The daemon may be killed from the record on. */
  async cut(text: string | undefined): Promise<never> {
    await Promise.allSettled(this.#running);
    this.record("cut", text);
    return await new Promise<never>(() => {});
  }

  record(event: CutRecord["event"], text?: string): void {
    const record: CutRecord = {
      method: this.#method,
      pod: this.#pod,
      event,
      ...(text !== undefined && { text }),
    };
    writeTextFile(file ?? "", `${JSON.stringify(record)}\n`, { append: true });
  }
}

/** What is done in a call, and behind its back, belongs to it. */
const calls = new AsyncLocalStorage<Call>();

const { add, del } = CniService.prototype;
CniService.prototype.add = function (request, options) {
  const call = new Call("add", request.args["K8S_POD_NAME"] ?? "");
  return calls.run(call, async () => {
    const result = await add.call(this, request, options);
    call.record("answered");
    return result;
  });
};
CniService.prototype.del = function (request, options) {
  const call = new Call("del", request.args["K8S_POD_NAME"] ?? "");
  return calls.run(call, async () => {
    await del.call(this, request, options);
    call.record("answered");
  });
};

const { tryExecute } = Connection.prototype;
Connection.prototype.tryExecute = async function (requests, options = {}) {
  const call = calls.getStore();
  if (call === undefined) return await tryExecute.call(this, requests, options);
  const texts = requests.map((request) => request.describe());
  const steps = options.whole === true ? [texts.join(", ")] : texts;
  const may = call.take(steps);
  const execute = (some: typeof requests) =>
    call.run(() => tryExecute.call(this, some, options));
  if (may === steps.length) return await execute(requests);
  if (may > 0) await execute(requests.slice(0, may));
  return await call.cut(steps[may]);
};

Deno.writeTextFileSync = (path, ...rest) => {
  const call = calls.getStore();
  // Skipped, when there is none left: all that comes next is cut.
  if (call !== undefined && call.take([`write ${path}`]) === 0) return;
  writeTextFile(path, ...rest);
};

await main(Deno.args, { program: "coild" });
