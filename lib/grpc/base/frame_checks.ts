import { ErrorCode, type Frame, Http2Error } from "./http2_frames.ts";

/** @throws {Http2Error} when a frame that concerns the connection is of a stream, or the other way round */
export function expectStream(
  { type, streamId }: Frame,
  { isConnection }: { readonly isConnection: boolean },
): void {
  if ((streamId === 0) === isConnection) return;
  throw new Http2Error(`frame of type ${type} with stream ${streamId}`);
}

/** @throws {Http2Error} when the payload has another size */
export function expectSize({ type, payload }: Frame, size: number): void {
  if (payload.length === size) return;
  throw new Http2Error(
    `frame of type ${type} with ${payload.length} bytes`,
    ErrorCode.FRAME_SIZE_ERROR,
  );
}

/** What the peer did wrong; other errors than those of frames and header blocks are thrown on. */
export function toHttp2Error(error: unknown): Http2Error {
  if (error instanceof Http2Error) return error;
  if (!(error instanceof SyntaxError)) throw error;
  return new Http2Error(error.message, ErrorCode.COMPRESSION_ERROR);
}

/** The peer has sent, or granted, more than it may. */
export function flowControlError(): Http2Error {
  return new Http2Error("window overrun", ErrorCode.FLOW_CONTROL_ERROR);
}
