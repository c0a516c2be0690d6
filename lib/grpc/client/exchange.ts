import { writeAll } from "../../async/mod.ts";
import { isDisconnect } from "../base/disconnect.ts";
import { GrpcError, StatusCode } from "../base/status.ts";
import { UnaryExchange, type UnaryRequest } from "./unary_exchange.ts";

/**
 * Makes a unary call on a connection that is used for nothing else, and
 * returns the answer, which may have 4 MiB. To give up, close the connection.
 *
 * @throws {GrpcError} when the call fails; UNAVAILABLE when the server closes the connection
 * @throws {unknown} what else the connection throws: that it was closed here, or what TLS found after the handshake
 */
export async function exchange(
  connection: Deno.Conn,
  request: UnaryRequest,
): Promise<Uint8Array> {
  const call = new UnaryExchange(request);
  const buffer = new Uint8Array(65536);
  let broken: unknown;
  while (call.response === undefined) {
    // A peer may answer without reading the whole request, and close.
    broken ??= await write(connection, call.takeOutput());
    const count = await readSome(connection, buffer);
    if (typeof count !== "number") throw closedEarly(count ?? broken);
    call.receive(buffer.subarray(0, count));
  }
  return call.response;
}

/** Writes all of it; returns the error when the peer has closed. */
async function write(
  connection: Deno.Conn,
  bytes: Uint8Array,
): Promise<unknown> {
  try {
    await writeAll(connection, bytes);
    return undefined;
  } catch (error) {
    if (!isDisconnect(error)) throw error;
    return error;
  }
}

/** Returns how many bytes came, null at the end, or the error it ended with. */
async function readSome(
  connection: Deno.Conn,
  buffer: Uint8Array,
): Promise<unknown> {
  try {
    return await connection.read(buffer);
  } catch (error) {
    if (!isDisconnect(error)) throw error;
    return error;
  }
}

function closedEarly(cause: unknown): GrpcError {
  return new GrpcError("Connection closed before the answer", {
    code: StatusCode.UNAVAILABLE,
    cause,
  });
}
