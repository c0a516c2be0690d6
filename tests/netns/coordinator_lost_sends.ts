/**
 * A kernel that some send does not reach, or whose answers to it are lost, for
 * tests of the coordinator.
 *
 * @module
 */
import type { Outside } from "../../lib/coordinator/mod.ts";
import {
  type Bytes,
  ERRNO,
  LinuxError,
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  openNetlink,
} from "../../lib/linux/mod.ts";
import {
  type Lost,
  NetfilterSocket,
  RouteSocket,
} from "../../lib/netlink/mod.ts";
import { type Countdown, isRefused } from "./coordinator_faults.ts";

/** Loses a request, or the answers to it, of any send: the kernel's memory is short. */
export function losing(
  lost: Lost,
  at: Countdown,
): (outside: Outside) => Outside {
  const spoiled = (...args: Parameters<typeof openNetlink>) =>
    new ShortOfMemory(openNetlink(...args), { lost, at });
  return (outside) => ({
    ...outside,
    openRoutes: (netns) => RouteSocket.over(spoiled(NETLINK_ROUTE, { netns })),
    openFilters: (netns) =>
      NetfilterSocket.over(spoiled(NETLINK_NETFILTER, { netns })),
  });
}

type Socket = ReturnType<typeof openNetlink>;

class ShortOfMemory {
  readonly #socket: Socket;
  readonly #fault: { readonly lost: Lost; readonly at: Countdown };
  readonly #buffer: Bytes = new Uint8Array(64 << 10);
  /** The next receive says that answers were dropped. */
  #dropped = false;

  constructor(
    socket: Socket,
    fault: { readonly lost: Lost; readonly at: Countdown },
  ) {
    this.#socket = socket;
    this.#fault = fault;
  }

  get portId(): number {
    return this.#socket.portId;
  }

  async sendOffThread(bytes: Bytes): Promise<void> {
    const isHit = this.#hits();
    await this.#socket.sendOffThread(bytes);
    if (isHit) this.#drop();
  }

  sendNow(bytes: Bytes): void {
    const isHit = this.#hits();
    this.#socket.sendNow(bytes);
    if (isHit) this.#drop();
  }

  receiveNow(buffer: Bytes): number | undefined {
    if (this.#dropped) {
      this.#dropped = false;
      throw noMemory("recv");
    }
    return this.#socket.receiveNow(buffer);
  }

  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    return this.#dropped
      ? this.receiveNow(buffer)
      : await this.#socket.receiveOffThread(buffer);
  }

  closeOffThread(): Promise<void> {
    return this.#socket.closeOffThread();
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  /** Whether the answers to this send are to be lost. @throws {LinuxError} when it is the send itself */
  #hits(): boolean {
    const { lost, at } = this.#fault;
    if (!isRefused(at)) return false;
    if (lost === "request") throw noMemory("send");
    return true;
  }

  #drop(): void {
    while (this.#socket.receiveNow(this.#buffer) !== undefined);
    this.#dropped = true;
  }
}

function noMemory(syscall: "send" | "recv"): LinuxError {
  return new LinuxError("use a socket", { syscall, errno: ERRNO.ENOBUFS });
}
