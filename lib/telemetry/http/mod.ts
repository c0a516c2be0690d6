/**
 * An HTTP/1.1 server for metrics, health and announcements, which any pod may reach.
 *
 * See docs/decisions/0012-http-servers-with-bounds.md.
 *
 * @module
 */
export { bearerTokenOf } from "./bearer_token.ts";
export type { HttpHandler } from "./connection.ts";
export { DEFAULT_LIMITS, type HttpLimits } from "./limits.ts";
export { HttpServer } from "./server.ts";
