import { errnoName } from "../linux/mod.ts";
import {
  NLMSG_DONE,
  NLMSG_ERROR,
  RTM_DELADDR,
  RTM_DELLINK,
  RTM_DELNEIGH,
  RTM_DELROUTE,
  RTM_DELRULE,
  RTM_GETADDR,
  RTM_GETLINK,
  RTM_GETNEIGH,
  RTM_GETROUTE,
  RTM_GETRULE,
  RTM_NEWADDR,
  RTM_NEWLINK,
  RTM_NEWNEIGH,
  RTM_NEWROUTE,
  RTM_NEWRULE,
  RTM_SETLINK,
} from "./constants.ts";
import { parseAcknowledgement } from "./errors.ts";
import { type Message, parseMessages } from "./message_reader.ts";

/** Gets every datagram that goes through a socket. */
export interface Trace {
  /** Sees what goes to the kernel, with the descriptions of its requests. */
  sent(bytes: Uint8Array, descriptions: readonly string[]): void;
  /** Sees what comes from the kernel. */
  received(bytes: Uint8Array): void;
}

const TYPE_NAMES: ReadonlyMap<number, string> = new Map([
  [NLMSG_ERROR, "NLMSG_ERROR"],
  [NLMSG_DONE, "NLMSG_DONE"],
  [RTM_NEWLINK, "RTM_NEWLINK"],
  [RTM_DELLINK, "RTM_DELLINK"],
  [RTM_GETLINK, "RTM_GETLINK"],
  [RTM_SETLINK, "RTM_SETLINK"],
  [RTM_NEWADDR, "RTM_NEWADDR"],
  [RTM_DELADDR, "RTM_DELADDR"],
  [RTM_GETADDR, "RTM_GETADDR"],
  [RTM_NEWROUTE, "RTM_NEWROUTE"],
  [RTM_DELROUTE, "RTM_DELROUTE"],
  [RTM_GETROUTE, "RTM_GETROUTE"],
  [RTM_NEWNEIGH, "RTM_NEWNEIGH"],
  [RTM_DELNEIGH, "RTM_DELNEIGH"],
  [RTM_GETNEIGH, "RTM_GETNEIGH"],
  [RTM_NEWRULE, "RTM_NEWRULE"],
  [RTM_DELRULE, "RTM_DELRULE"],
  [RTM_GETRULE, "RTM_GETRULE"],
]);

/** The trace that the environment asks for: NETLINK_TRACE=1 writes to standard error. */
export function traceFromEnvironment(): Trace | undefined {
  if (Deno.env.get("NETLINK_TRACE") !== "1") return undefined;
  const encoder = new TextEncoder();
  return textTrace((line) =>
    Deno.stderr.writeSync(encoder.encode(`${line}\n`))
  );
}

/** A trace as text: a line for each message, its bytes in hexadecimal below. */
export function textTrace(write: (line: string) => void): Trace {
  const show = (arrow: string, bytes: Uint8Array, notes: readonly string[]) => {
    const note = notes.values();
    try {
      for (const message of parseMessages(bytes)) {
        const text = note.next().value ?? "";
        write(`netlink ${arrow} ${summary(message)} ${text}`.trimEnd());
        for (const line of hexLines(message.payload.bytes)) write(line);
      }
    } catch (error) {
      // What is malformed is the reader's business; it is only shown here.
      if (!(error instanceof SyntaxError)) throw error;
      write(`netlink ${arrow} malformed: ${bytes.byteLength} bytes`);
      for (const line of hexLines(bytes)) write(line);
    }
  };
  return {
    sent: (bytes, descriptions) => show("->", bytes, descriptions),
    received: (bytes) => show("<-", bytes, []),
  };
}

function summary(message: Message): string {
  const { type, flags, sequence, payload } = message;
  const name = TYPE_NAMES.get(type) ?? `type ${type}`;
  const head = `seq ${sequence} ${name} flags 0x${flags.toString(16)}`;
  return `${head} ${payload.bytes.byteLength} bytes${verdictText(message)}`;
}

function verdictText(message: Message): string {
  if (message.type !== NLMSG_ERROR) return "";
  try {
    const { errno, extack } = parseAcknowledgement(message);
    const code = errno === 0 ? "ok" : errnoName(errno);
    return extack === undefined ? ` ${code}` : ` ${code} (${extack})`;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return " malformed";
  }
}

/** As hexdump(1) would show them: the offset and 16 bytes a line. */
function hexLines(bytes: Uint8Array): string[] {
  const lines: string[] = [];
  for (let at = 0; at < bytes.byteLength; at += 16) {
    const hex = Array.from(
      bytes.subarray(at, at + 16),
      (byte) => byte.toString(16).padStart(2, "0"),
    );
    lines.push(`  ${at.toString(16).padStart(4, "0")}  ${hex.join(" ")}`);
  }
  return lines;
}
