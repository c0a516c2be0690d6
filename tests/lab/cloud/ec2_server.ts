import type { Account } from "./account.ts";
import type { CallLog } from "./calls.ts";
import type { AccountCredentials } from "./config.ts";
import { ACTIONS } from "./ec2_actions.ts";
import { Ec2Error } from "./errors.ts";
import type { Fault, Faults } from "./faults.ts";
import { Form } from "./form.ts";
import type { Answer, Request } from "./http.ts";
import { accessesOf, refusalBy } from "./iam.ts";
import { checkSignature } from "./sigv4.ts";
import { answerXml, errorXml, type XmlFields } from "./xml.ts";

/** The version of the API whose forms and elements these are. */
const VERSION = "2016-11-15";
const XML = "text/xml;charset=UTF-8";
const THROTTLED = "RequestLimitExceeded";

/** What EC2's endpoint needs. */
export interface Ec2Options {
  readonly account: Account;
  readonly faults: Faults;
  readonly calls: CallLog;
  /** Credentials of an access key; undefined when there are none. */
  find(accessKeyId: string): AccountCredentials | undefined;
}

/** What came of an action. */
interface Outcome {
  readonly status: number;
  readonly code?: string;
  readonly body: string;
}

/** EC2's query API: one form with an action comes in, XML goes out. */
export class Ec2Endpoint {
  readonly #options: Ec2Options;
  /** Answers to requests with a client token, by token, with what was asked. */
  readonly #byToken = new Map<string, { asked: string; fields: XmlFields }>();

  constructor(options: Ec2Options) {
    this.#options = options;
  }

  answer(request: Request): Answer {
    const { faults, calls } = this.#options;
    const parameters = Object.fromEntries(new URLSearchParams(request.body));
    const call = parameters["Action"] ?? "";
    const fault = faults.take(call);
    const signer = this.#signer(request);
    const isSigned = !(signer instanceof Ec2Error);
    const policy = isSigned ? signer.policy : undefined;
    const needs = policy && accessesOf(parameters, this.#options.account);
    const refused = isSigned ? refusalBy(policy, needs) : signer;
    const { status, code, body } = refused === undefined
      ? this.#outcome(request.body, fault)
      : failure(refused);
    calls.note({
      call,
      parameters,
      caller: isSigned ? signer.accessKeyId : undefined,
      needs,
      status,
      code,
      fault: fault?.kind,
    });
    const { lateMs = 0, ...effect } = effectOf(fault, faults);
    const later = lateMs + this.#options.account.pace.answerMs;
    return { status, type: XML, body, ...effect, lateMs: later };
  }

  /** What an operator does by hand: it is not signed, not recorded, and nothing goes wrong on purpose. */
  byHand(body: string): string {
    return this.#outcome(body, undefined).body;
  }

  /** Who has signed it, or why it is refused. */
  #signer(request: Request): AccountCredentials | Ec2Error {
    const { account: { region }, find } = this.#options;
    const check = { region, service: "ec2", now: Date.now(), find };
    try {
      return checkSignature(request, check);
    } catch (error) {
      if (error instanceof Ec2Error) return error;
      throw error;
    }
  }

  #outcome(body: string, fault: Fault | undefined): Outcome {
    try {
      if (fault?.kind === "error") throw new Ec2Error(fault.code);
      if (fault?.kind === "throttle") throw new Ec2Error(THROTTLED);
      // No change then, and no answer either.
      if (fault?.kind === "cut" && fault.when === "before") {
        return { status: 0, body: "" };
      }
      const form = Form.parse(body);
      const action = readAction(form);
      const fields = this.#run(action, form);
      const requestId = crypto.randomUUID();
      return { status: 200, body: answerXml(action, { requestId, fields }) };
    } catch (error) {
      if (error instanceof Ec2Error) return failure(error);
      throw error;
    }
  }

  /** Runs an action once for each client token. */
  #run(name: string, form: Form): XmlFields {
    const action = ACTIONS[name];
    if (action === undefined) {
      throw new Ec2Error(
        "InvalidAction",
        `The action ${name} is not valid for this web service.`,
      );
    }
    const parameters = form.toRecord();
    const token = parameters["ClientToken"];
    const asked = JSON.stringify(Object.entries(parameters).sort());
    const before = token === undefined ? undefined : this.#byToken.get(token);
    if (before !== undefined && before.asked !== asked) {
      throw new Ec2Error(
        "IdempotentParameterMismatch",
        "The request uses the same client token as a previous, but non-identical request.",
      );
    }
    if (before !== undefined) return before.fields;
    const fields = action(form, this.#options.account);
    if (token !== undefined) this.#byToken.set(token, { asked, fields });
    return fields;
  }
}

function readAction(form: Form): string {
  const action = form.text("Action");
  if (action === undefined) {
    throw new Ec2Error(
      "MissingAction",
      "The request is missing an action or a required parameter.",
    );
  }
  const version = form.text("Version");
  if (version === VERSION) return action;
  throw new Ec2Error(
    "NoSuchVersion",
    `The requested version (${version}) of service AmazonEC2 does not exist`,
  );
}

function failure(error: Ec2Error): Outcome {
  const { code, status } = error;
  return { status, code, body: errorXml(error, crypto.randomUUID()) };
}

/** What a fault does to an answer. */
export function effectOf(
  fault: Fault | undefined,
  faults: Faults,
): Pick<Answer, "cut" | "after" | "lateMs"> {
  if (fault?.kind === "cut") return { cut: "all" };
  if (fault?.kind === "half") return { cut: "half" };
  if (fault?.kind !== "late") return {};
  const { ms } = fault;
  return ms === undefined ? { after: faults.cleared() } : { lateMs: ms };
}
