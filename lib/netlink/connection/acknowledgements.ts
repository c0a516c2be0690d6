import { type Bytes, ERRNO, LinuxError } from "../../linux/mod.ts";
import { NLMSG_ERROR, NLMSG_NOOP } from "../message/constants.ts";
import {
  NetlinkError,
  parseAcknowledgement,
  type Verdict,
} from "../message/errors.ts";
import { type Message, parseMessages } from "../message/message_reader.ts";
import type { Request } from "../message/request.ts";
import type { Trace } from "./trace.ts";
import type { Transport } from "./transport.ts";

/** What is known of a request about which the kernel said nothing. */
const UNACKNOWLEDGED: Verdict = {
  errno: ERRNO.EPROTO,
  extack: "no acknowledgement",
  lost: "answer",
};

/** Acknowledgements are capped: some hundred bytes, unless one carries an answer. */
const BUFFER_BYTES = 64 << 10;
/** Used only between a receive and the end of the same synchronous function. */
const buffer: Bytes = new Uint8Array(BUFFER_BYTES);

/** The requests of one send, and which sequence number belongs to which. */
export interface Batch {
  /** In the order that they were sent in. */
  readonly requests: Request[];
  /** Index in `requests` by sequence number. */
  readonly positions: Map<number, number>;
}

/** What reading the outcomes of a batch takes. */
export interface OutcomeOptions {
  /** Where it was sent. */
  readonly transport: Transport;
  /** Sees what is received. */
  readonly trace: Trace | undefined;
  /** How many requests of the caller's were sent before this batch. */
  readonly base: number;
  /** Why the batch was not sent, if it was not. */
  readonly unsent: Verdict | undefined;
}

/** Reads the acknowledgements of a batch: they are all there, since the send came back. */
export function readOutcomes(
  batch: Batch,
  options: OutcomeOptions,
): (NetlinkError | undefined)[] {
  const verdicts = new Map<number, Verdict>();
  let missing: Verdict = options.unsent ?? UNACKNOWLEDGED;
  while (verdicts.size < batch.requests.length) {
    const received = receive(options);
    if (received === undefined) break;
    if ("lost" in received) {
      missing = received.lost;
      // ENOBUFS is said once, for what was dropped. Anything else stays.
      if (missing.errno === ERRNO.ENOBUFS) continue;
      break;
    }
    for (const message of parseMessages(received.bytes)) {
      if (message.portId === options.transport.portId) {
        take(message, batch, verdicts);
      }
    }
  }
  return batch.requests.map((request, position) => {
    const verdict = verdicts.get(position) ?? missing;
    const silence = verdict === UNACKNOWLEDGED && request.silent === true;
    if (verdict.errno === 0 || silence) return undefined;
    const index = options.base + position;
    return new NetlinkError(request.describe(), { ...verdict, index });
  });
}

function receive(
  { transport, trace }: OutcomeOptions,
):
  | { readonly bytes: Uint8Array }
  | { readonly lost: Verdict }
  | undefined {
  try {
    const length = transport.receiveNow(buffer);
    if (length === undefined) return undefined;
    const bytes = buffer.subarray(0, length);
    trace?.received(bytes);
    return { bytes };
  } catch (error) {
    const verdict = transportFailure(error, "while receiving");
    return { lost: { ...verdict, lost: "answer" } };
  }
}

function take(
  message: Message,
  batch: Batch,
  verdicts: Map<number, Verdict>,
): void {
  const position = batch.positions.get(message.sequence);
  if (position === undefined) return; // left over from a turn that lost its place
  if (message.type === NLMSG_ERROR) {
    verdicts.set(position, parseAcknowledgement(message));
  } else if (message.type !== NLMSG_NOOP) {
    batch.requests[position]?.onReply?.(message);
  }
}

/** What a failed system call amounts to; anything else is thrown on. */
export function transportFailure(error: unknown, extack: string): Verdict {
  if (error instanceof LinuxError) return { errno: error.errno, extack };
  throw error;
}
