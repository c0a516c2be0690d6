import type { Message } from "./message_reader.ts";
import type { MessageWriter } from "./message_writer.ts";

/** One thing asked of the kernel. Requests are plain data with two functions; making one does nothing. */
export interface Request {
  /** The message type, such as RTM_NEWLINK. */
  readonly type: number;
  /** The flags beside NLM_F_REQUEST and NLM_F_ACK, such as NLM_F_CREATE. */
  readonly flags: number;
  /** Whether the kernel is to answer only when it refuses: for the frame of a transaction, which older kernels do not acknowledge. */
  readonly silent?: boolean;
  /** Says what is asked, to complete "Cannot …" in an error. */
  describe(): string;
  /** Writes what follows the message header. Called when it is sent, maybe more than once. */
  write(writer: MessageWriter): void;
  /** Gets each reply that is not the acknowledgement. Its bytes are good only during the call. */
  onReply?(message: Message): void;
}
