/**
 * How a node's daemon announces a client's address to an egress gateway before
 * the API server knows it, and which other gateways the node has lost: the
 * messages, the client's half and the server's half.
 *
 * @module
 */
export {
  AnnounceClient,
  type AnnounceClientOptions,
  type AnnounceResult,
  type AnnounceTarget,
  type AnnounceTokens,
} from "./client.ts";
export {
  announceHandler,
  type AnnounceHandlerOptions,
  type Caller,
  type Verdict,
} from "./handler.ts";
export {
  ANNOUNCE_PATH,
  type AnnouncedPod,
  type Announcement,
  formatAnnouncement,
  formatLossReport,
  formatRefusal,
  LOSSES_PATH,
  type LossReport,
  parseAnnouncement,
  parseLossReport,
  parseRefusal,
  type ReportedLoss,
} from "./wire.ts";
