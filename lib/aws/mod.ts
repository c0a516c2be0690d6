/**
 * Calls of AWS: EC2 by its query protocol, instance metadata (IMDSv2), credentials and signatures.
 *
 * @module
 */
export { CallBudget, type CallBudgetOptions, type CallKind } from "./budget.ts";
export { CredentialSource } from "./credential_source.ts";
export {
  credentialSourceOf,
  type CredentialSourceOptions,
} from "./credentials.ts";
export { AwsError, AwsUnreachableError, CredentialsError } from "./errors.ts";
export { ImdsClient, type ImdsClientOptions, ImdsError } from "./imds.ts";
export { endpointOf, QueryClient } from "./query.ts";
export { Credentials, type KeyTexts } from "./sign.ts";
