import { errnoName } from "../../linux/mod.ts";
import { NLMSG_ERROR } from "../message/constants.ts";
import { parseAcknowledgement } from "../message/errors.ts";
import { type Message, parseMessages } from "../message/message_reader.ts";
import { ROUTE_NAMES, type TypeNames } from "./trace_names.ts";

/** Gets every datagram that goes through a socket. */
export interface Trace {
  /** Sees what goes to the kernel, with the descriptions of its requests. */
  sent(bytes: Uint8Array, descriptions: readonly string[]): void;
  /** Sees what comes from the kernel. */
  received(bytes: Uint8Array): void;
}

/** The trace that the environment asks for: NETLINK_TRACE=1 writes to standard error. */
export function traceFromEnvironment(
  names: TypeNames = ROUTE_NAMES,
): Trace | undefined {
  if (Deno.env.get("NETLINK_TRACE") !== "1") return undefined;
  const encoder = new TextEncoder();
  return textTrace(
    (line) => Deno.stderr.writeSync(encoder.encode(`${line}\n`)),
    names,
  );
}

/** A trace as text: a line for each message, its bytes in hexadecimal below. */
export function textTrace(
  write: (line: string) => void,
  names: TypeNames = ROUTE_NAMES,
): Trace {
  const show = (arrow: string, bytes: Uint8Array, notes: readonly string[]) => {
    const note = notes.values();
    try {
      for (const message of parseMessages(bytes)) {
        const text = note.next().value ?? "";
        write(`netlink ${arrow} ${summary(message, names)} ${text}`.trimEnd());
        for (const line of hexLines(message.payload.bytes)) write(line);
      }
    } catch (error) {
      // Malformed messages are only shown here; the reader reports them.
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

function summary(message: Message, names: TypeNames): string {
  const { type, flags, sequence, payload } = message;
  const name = names.get(type) ?? `type ${type}`;
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
