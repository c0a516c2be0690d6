/**
 * How a node's daemon announces a client's address to an egress gateway before
 * the API server knows it, which other gateways the node has lost, and with
 * which other sources a gateway's packets leave its node: the messages, the
 * client's half and the server's half.
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
  formatSourceReport,
  LOSSES_PATH,
  type LossReport,
  MAX_TRANSLATED,
  parseAnnouncement,
  parseLossReport,
  parseRefusal,
  parseSourceReport,
  type ReportedLoss,
  type SourceReport,
  SOURCES_PATH,
  type TranslatedSource,
} from "./wire.ts";
