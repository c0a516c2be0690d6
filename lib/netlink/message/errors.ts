import { ERRNO, errnoName } from "../../linux/mod.ts";
import {
  align,
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLMSG_HEADER_SIZE,
  NLMSGERR_ATTR_MSG,
  NLMSGERR_ATTR_OFFS,
} from "./constants.ts";
import type { Message } from "./message_reader.ts";

/**
 * What did not arrive: the request, so that nothing was done, or the answer,
 * so that it may have been carried out.
 */
export type Lost = "request" | "answer";

/** The kernel's verdict on a request. */
export interface Verdict {
  /** Zero when it was carried out. */
  readonly errno: number;
  /** The kernel's own words, where it has some. */
  readonly extack?: string | undefined;
  /** Where in the request the offending attribute is. */
  readonly offset?: number | undefined;
  readonly lost?: Lost | undefined;
}

/** ENOENT, ESRCH, ENODEV: no such rule, route, link or table. */
const ABSENT: ReadonlySet<string> = new Set(["ENOENT", "ESRCH", "ENODEV"]);

/** A request that the kernel refused. Compare `code`, never the text. */
export class NetlinkError extends Error {
  /** The name of the class. */
  override readonly name: string = "NetlinkError";
  /** What was asked, such as `add route "10.1.2.3/32" to table 116`. */
  readonly op: string;
  /** The error number. */
  readonly errno: number;
  /** The error number's name, such as `EEXIST`. */
  readonly code: string;
  /** The kernel's own words, where it has some. */
  readonly extack?: string | undefined;
  /** Where in the request the offending attribute is, in bytes. */
  readonly offset?: number | undefined;
  /** Which request of a batch it was, counted from zero. */
  readonly index?: number | undefined;
  /** What of the exchange was lost; undefined where the kernel itself refused. */
  readonly lost?: Lost | undefined;

  /** `op` completes "Cannot …". */
  constructor(op: string, verdict: Verdict & { readonly index?: number }) {
    const code = errnoName(verdict.errno);
    const { extack, offset, index } = verdict;
    const detail = extack === undefined ? "" : ` (${extack})`;
    super(`Cannot ${op}: kernel returned ${code}${detail}`);
    this.op = op;
    this.errno = verdict.errno;
    this.code = code;
    this.extack = extack;
    this.offset = offset;
    this.index = index;
    this.lost = verdict.lost;
  }

  /** Whether what the request was about is not there: a deletion has nothing left to do. */
  get isAbsent(): boolean {
    return ABSENT.has(this.code);
  }
}

/** Nothing is known of what was asked, when a request or its answer was lost. @throws {NetlinkError} for the first such */
export function refuseLost(
  outcomes: readonly (NetlinkError | undefined)[],
): void {
  const lost = outcomes.find((error) => error?.lost !== undefined);
  if (lost !== undefined) throw lost;
}

/** The first error that says something else than that a thing is not there. */
export function unexpectedError(
  outcomes: readonly (NetlinkError | undefined)[],
): NetlinkError | undefined {
  return outcomes.find((error) => error && error.errno !== ERRNO.ENOENT);
}

/**
 * How many of these deletions found something to delete.
 *
 * @throws {NetlinkError} the first that failed for another reason
 */
export function countDeleted(
  outcomes: readonly (NetlinkError | undefined)[],
): number {
  const failed = unexpectedError(outcomes);
  if (failed !== undefined) throw failed;
  return outcomes.filter((outcome) => outcome === undefined).length;
}

/**
 * Reads an NLMSG_ERROR (`struct nlmsgerr`): an error number, the header of the
 * request, the request itself unless capped, attributes.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseAcknowledgement(message: Message): Verdict {
  const { payload, flags } = message;
  const requestLength = payload.u32(4);
  const echoed = (flags & NLM_F_CAPPED) !== 0
    ? NLMSG_HEADER_SIZE
    : align(requestLength);
  return readVerdict(message, 4 + echoed);
}

/**
 * Reads an NLMSG_DONE: an error number, attributes.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseDone(message: Message): Verdict {
  // Some dumps of older kernels end without a number.
  if (message.payload.bytes.byteLength < 4) return { errno: 0 };
  return readVerdict(message, 4);
}

function readVerdict(message: Message, headerSize: number): Verdict {
  const { payload, flags } = message;
  const errno = Math.abs(payload.i32(0));
  if ((flags & NLM_F_ACK_TLVS) === 0) return { errno };
  const attributes = payload.attributes(headerSize);
  return {
    errno,
    extack: attributes.string(NLMSGERR_ATTR_MSG),
    offset: attributes.u32(NLMSGERR_ATTR_OFFS),
  };
}
