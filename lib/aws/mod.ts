/**
 * Calls of AWS: EC2 by its query protocol, instance metadata (IMDSv2), credentials and signatures.
 *
 * @module
 */
export {
  type Attempt,
  CallBudget,
  type CallBudgetOptions,
  type CallKind,
} from "./budget.ts";
export { CredentialSource } from "./credential_source.ts";
export {
  credentialSourceOf,
  type CredentialSourceOptions,
} from "./credentials.ts";
export { Ec2Client, type Ec2ClientOptions } from "./ec2.ts";
export type {
  AddressGrant,
  AddressRequest,
  Attachment,
  AttachRequest,
  CreateRequest,
  Filters,
  GivenBack,
  InstanceType,
  NetworkInterface,
  Subnet,
  Tags,
} from "./ec2_types.ts";
export { AwsError, CredentialsError, NoAnswerError } from "./errors.ts";
export { ImdsClient, type ImdsClientOptions, ImdsError } from "./imds.ts";
export { endpointOf } from "./query.ts";
export { Credentials, type KeyTexts } from "./sign.ts";
