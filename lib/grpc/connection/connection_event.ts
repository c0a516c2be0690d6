/** Event from a peer. */
export type ConnectionEvent =
  | {
    readonly type: "call";
    readonly streamId: number;
    readonly path: string;
    readonly timeoutMs: number | undefined;
  }
  | {
    readonly type: "message";
    readonly streamId: number;
    readonly message: Uint8Array;
  }
  /** The caller has sent all its messages. */
  | { readonly type: "halfClose"; readonly streamId: number }
  /** The caller has given up, or was given up. */
  | { readonly type: "cancel"; readonly streamId: number };
