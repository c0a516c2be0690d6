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
} from "./query/budget.ts";
export { CredentialSource } from "./query/credential_source.ts";
export {
  credentialSourceOf,
  type CredentialSourceOptions,
} from "./metadata/credentials.ts";
export { Ec2Client, type Ec2ClientOptions } from "./ec2/client.ts";
export type {
  AddressGrant,
  AddressRequest,
  AttachRequest,
  CreateRequest,
  Filters,
  GivenBack,
  InstanceType,
  InterfaceAttachment,
  NetworkInterface,
  Tags,
} from "./ec2/types.ts";
export { AwsError, CredentialsError, NoAnswerError } from "./base/errors.ts";
export {
  ImdsClient,
  type ImdsClientOptions,
  ImdsError,
} from "./metadata/imds.ts";
export { endpointOf } from "./query/query.ts";
export { Credentials, type KeyTexts } from "./base/sign.ts";
