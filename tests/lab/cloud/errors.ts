/** An error as EC2 answers it: its code, for programs, and the status of HTTP. */
export class Ec2Error extends Error {
  override readonly name: string = "Ec2Error";
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string = usualMessage(code)) {
    super(message);
    this.code = code;
    this.status = STATUS[code] ?? 400;
  }
}

/** Codes whose status is not 400: "Error codes for the Amazon EC2 API". */
const STATUS: Readonly<Record<string, number>> = {
  AuthFailure: 401,
  InternalError: 500,
  MissingAuthenticationToken: 403,
  RequestLimitExceeded: 503,
  Unavailable: 503,
  UnauthorizedOperation: 403,
};

/** What EC2 says with codes that need no object's name. */
const MESSAGES: Readonly<Record<string, string>> = {
  AuthFailure: "AWS was not able to validate the provided access credentials",
  InsufficientCidrBlocks:
    "The specified subnet does not have enough free cidr blocks to satisfy the request.",
  InsufficientFreeAddressesInSubnet:
    "The specified subnet does not have enough free addresses to satisfy the request.",
  InternalError: "An internal error has occurred",
  PrivateIpAddressLimitExceeded:
    "Number of private addresses will exceed limit.",
  RequestExpired: "Request has expired.",
  RequestLimitExceeded: "Request limit exceeded.",
  UnauthorizedOperation: "You are not authorized to perform this operation.",
  Unavailable: "The service is unavailable. Please try again shortly.",
};

function usualMessage(code: string): string {
  return MESSAGES[code] ?? `The request failed with ${code}`;
}

/** A value that EC2 refuses. */
export function invalidValue(message: string): Ec2Error {
  return new Ec2Error("InvalidParameterValue", message);
}

/** Parameters that exclude each other, or none where one is needed. */
export function invalidCombination(message: string): Ec2Error {
  return new Ec2Error("InvalidParameterCombination", message);
}

/** A parameter that is not there. */
export function missingParameter(name: string): Ec2Error {
  return new Ec2Error(
    "MissingParameter",
    `The request must contain the parameter ${name}`,
  );
}
