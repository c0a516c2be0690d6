import type { Bytes } from "../../linux/mod.ts";

/** Carrier of datagrams to the kernel and back, such as a `NetlinkSocket` of `lib/linux`. */
export interface Transport extends Disposable {
  /** The port id that replies carry. */
  readonly portId: number;
  /** Sends one datagram; when done, the kernel has carried it out and replied. */
  sendOffThread(bytes: Bytes): Promise<void>;
  /** As `sendOffThread()`, holding up the event loop. */
  sendNow(bytes: Bytes): void;
  /** Receives one datagram, or undefined when none is waiting; see `NetlinkSocket`. */
  receiveNow(buffer: Bytes): number | undefined;
  /** As `receiveNow()`, without holding up the event loop. */
  receiveOffThread(buffer: Bytes): Promise<number | undefined>;
  /** Closes it on another thread, where closing may wait. */
  closeOffThread(): Promise<void>;
}
