/**
 * Calls of AWS: EC2 by its query protocol, instance metadata (IMDSv2), credentials and signatures.
 *
 * @module
 */
export { type Attempt, CallBudget } from "./query/budget.ts";
export { credentialSourceOf } from "./metadata/credentials.ts";
export { Ec2Client } from "./ec2/client.ts";
export type { NetworkInterface, Tags } from "./ec2/resources.ts";
export { AwsError, AwsNoAnswerError, CredentialsError } from "./base/errors.ts";
export { ImdsClient } from "./metadata/imds.ts";
export { endpointOf } from "./query/query.ts";
