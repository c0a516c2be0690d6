/**
 * Calls of AWS: EC2 by its query protocol, instance metadata (IMDSv2), credentials and signatures.
 *
 * @module
 */
export { Credentials, type KeyTexts } from "./sign.ts";
