/** EC2's refusals have up to some kilobytes of encoded text. */
const MAX_MESSAGE_LENGTH = 600;

const THROTTLED: ReadonlySet<string> = new Set([
  "EC2ThrottledException",
  "RequestLimitExceeded",
  "RequestThrottled",
  "RequestThrottledException",
  "ThrottledException",
  "Throttling",
  "ThrottlingException",
  "TooManyRequestsException",
]);
const DENIED: ReadonlySet<string> = new Set([
  "AccessDenied",
  "AccessDeniedException",
  "UnauthorizedOperation",
]);
/** Keys that are no longer good, or never were: others may be. */
const BAD_KEYS: ReadonlySet<string> = new Set([
  "AuthFailure",
  "ExpiredToken",
  "ExpiredTokenException",
  "InvalidClientTokenId",
  "RequestExpired",
  "UnrecognizedClientException",
]);

/** What an admin can do, by the code. */
// mutate: words for people.
const ADVICE: Readonly<Record<string, string>> = {
  AddressLimitExceeded: "raise the account's quota in this region",
  AttachmentLimitExceeded:
    "the instance type takes no further network interface",
  AuthFailure: "check the node's credentials and its clock",
  IncorrectState: "another change is under way",
  InsufficientCidrBlocks:
    "free addresses of the subnet, or reserve a range of it for prefixes (aws ec2 create-subnet-cidr-reservation)",
  InsufficientFreeAddressesInSubnet:
    "free addresses of the subnet, or use a larger one",
  InvalidClientTokenId: "check the node's credentials",
  NetworkInterfaceLimitExceeded:
    "raise the account's quota of network interfaces in this region",
  PrivateIpAddressLimitExceeded:
    "the instance type allows no further address on this network interface",
  RequestExpired: "set the node's clock",
  SignatureDoesNotMatch: "check the node's credentials and its clock",
};

/** The error in AWS' answer to a call. */
export interface AwsRefusal {
  /** Name of the call, for example "AssignPrivateIpAddresses". */
  readonly call: string;
  /** What refused it, for people: "EC2". */
  readonly peer: string;
  /** How IAM calls the service: "ec2". */
  readonly service: string;
  /** AWS' code, for example "RequestLimitExceeded". */
  readonly code: string;
  /** AWS' own words. */
  readonly reason: string;
  /** HTTP status. */
  readonly status: number;
  /** What AWS' support asks for. */
  readonly requestId?: string | undefined;
}

/** AWS' refusal of a call, which did nothing then, but for {@linkcode isTransient} ones, of which that is not known. */
export class AwsError extends Error {
  /** The name of the class. */
  override readonly name = "AwsError";
  readonly call: string;
  readonly code: string;
  readonly status: number;
  readonly requestId: string | undefined;
  /** What to do about it; undefined when the code does not say. */
  readonly advice: string | undefined;

  /** Makes the error of an answer. */
  constructor(refusal: AwsRefusal) {
    const { call, peer, code, status, requestId } = refusal;
    const advice = adviceFor(refusal);
    const reason = shortened(refusal.reason);
    super(
      `Cannot call ${call} of ${peer}: ${code}` +
        (reason === "" ? "" : `: ${reason}`) +
        (advice === undefined ? "" : `; ${advice}`),
    );
    this.call = call;
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.advice = advice;
  }

  /** The account makes too many calls. Nothing was done; the same call may succeed later. */
  get isThrottled(): boolean {
    return THROTTLED.has(this.code) || this.status === 429;
  }
  /** IAM does not allow the call. */
  get isDenied(): boolean {
    return DENIED.has(this.code);
  }
  /** What the call is about does not exist, or not yet: EC2 shows what it made only after a while. */
  get isNotFound(): boolean {
    return this.code.endsWith(".NotFound");
  }
  /** The keys are not good, or no longer. */
  get hasBadKeys(): boolean {
    return BAD_KEYS.has(this.code);
  }
  /** AWS failed: the same call may succeed later. */
  get isTransient(): boolean {
    return this.status >= 500 && !this.isThrottled;
  }
}

/** There was no answer in time, or none that is whole and can be read: whether the call did anything is not known. */
export class AwsNoAnswerError extends Error {
  /** The name of the class. */
  override readonly name = "AwsNoAnswerError";
}

/** There are no keys to sign with, or none could be had now. */
export class CredentialsError extends Error {
  /** The name of the class. */
  override readonly name = "CredentialsError";
}

function adviceFor({ call, service, code }: AwsRefusal): string | undefined {
  if (call === "AssumeRoleWithWebIdentity" && DENIED.has(code)) {
    return "check the trust policy of the role that AWS_ROLE_ARN names";
  }
  return DENIED.has(code)
    ? `allow ${service}:${call} in the policy of the node's role`
    : ADVICE[code];
}

function shortened(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ").replace(/\.$/, "");
  return line.length > MAX_MESSAGE_LENGTH
    ? `${line.slice(0, MAX_MESSAGE_LENGTH)}…`
    : line;
}
