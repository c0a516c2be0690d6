import {
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  NLMSG_NOOP,
} from "../message/constants.ts";
import {
  NetlinkError,
  parseAcknowledgement,
  parseDone,
  type Verdict,
} from "../message/errors.ts";
import { type Message, parseMessages } from "../message/message_reader.ts";
import type { Request } from "../message/request.ts";

/** How much of a list is read in a pod: many times what Coil or another plugin makes. */
export const AT_MOST_IN_POD = 10_000;

/** Collects the entries of one dump. It reads to the end even when an entry is malformed, so that the socket stays in step. */
export class DumpReader<T> {
  /** How it ended; undefined while it goes on. */
  verdict: Verdict | undefined;
  /** Whether the list changed while the kernel wrote it, so that it has to be asked for again. */
  interrupted = false;
  readonly #sequence: number;
  readonly #portId: number;
  readonly #parse: (message: Message) => T | undefined;
  readonly #atMost: number;
  readonly #entries: T[] = [];
  #malformed: SyntaxError | undefined;

  /** Reads replies with that sequence number and port id, and keeps `atMost` of them. */
  constructor(
    { sequence, portId }: {
      readonly sequence: number;
      readonly portId: number;
    },
    parse: (message: Message) => T | undefined,
    { atMost = Infinity }: { readonly atMost?: number | undefined } = {},
  ) {
    this.#sequence = sequence;
    this.#portId = portId;
    this.#parse = parse;
    this.#atMost = atMost;
  }

  /** Takes one datagram. */
  take(bytes: Uint8Array): void {
    try {
      for (const message of parseMessages(bytes)) this.#takeMessage(message);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#malformed ??= error;
    }
  }

  /** Returns the entries; undefined when the dump was interrupted. */
  finish(request: Request): T[] | undefined {
    if (this.verdict !== undefined && this.verdict.errno !== 0) {
      throw new NetlinkError(request.describe(), this.verdict);
    }
    if (this.#malformed !== undefined) throw this.#malformed;
    return this.interrupted ? undefined : this.#entries;
  }

  #takeMessage(message: Message): void {
    if (
      message.sequence !== this.#sequence || message.portId !== this.#portId
    ) {
      return; // left over from a turn that lost its place
    }
    if ((message.flags & NLM_F_DUMP_INTR) !== 0) this.interrupted = true;
    if (message.type === NLMSG_ERROR) {
      this.verdict = parseAcknowledgement(message);
    } else if (message.type === NLMSG_DONE) {
      this.verdict = parseDone(message);
    } else if (
      message.type !== NLMSG_NOOP && this.#entries.length < this.#atMost
    ) {
      const entry = this.#parse(message);
      if (entry !== undefined) this.#entries.push(entry);
    }
  }
}
