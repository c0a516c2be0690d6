/** Flag, and length, before each message: gRPC over HTTP2, "Requests". */
export const MESSAGE_PREFIX = 5;

/** A message as it stands in DATA frames: uncompressed, with its length. */
export function frameMessage(message: Uint8Array): Uint8Array {
  const framed = new Uint8Array(MESSAGE_PREFIX + message.length);
  new DataView(framed.buffer).setUint32(1, message.length);
  framed.set(message, MESSAGE_PREFIX);
  return framed;
}
