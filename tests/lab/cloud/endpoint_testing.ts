import { FakeClock } from "../../../lib/async/testing.ts";
import { Account } from "./account.ts";
import { CallLog } from "./calls.ts";
import type { CloudConfig } from "./config.ts";
import { Ec2Endpoint } from "./ec2_server.ts";
import { Faults } from "./faults.ts";
import { ImdsEndpoint } from "./imds_server.ts";
import {
  cloudConfig,
  type Ec2Answer,
  formOf,
  readAnswer,
  type RequestChanges,
  signedRequest,
} from "./testing.ts";

/** A cloud in this process, by a clock that is turned. */
export class TestCloud {
  readonly clock: FakeClock = new FakeClock();
  readonly faults: Faults = new Faults(this.clock);
  readonly calls: CallLog = new CallLog(this.clock);
  readonly account: Account;
  readonly imds: ImdsEndpoint;
  readonly #ec2: Ec2Endpoint;
  readonly #config: CloudConfig;

  constructor(changes: Partial<CloudConfig> = {}) {
    const { clock, faults, calls } = this;
    const config = cloudConfig(changes);
    const { credentials } = config;
    const account = new Account(config, clock);
    this.#config = config;
    this.account = account;
    this.#ec2 = new Ec2Endpoint({
      account,
      faults,
      calls,
      find: (id) => credentials.find(({ accessKeyId }) => accessKeyId === id),
    });
    this.imds = new ImdsEndpoint({
      account,
      faults,
      calls,
      clock,
      credentials: () => credentials.find(({ role }) => role !== undefined),
    });
  }

  /** What EC2 answers to a signed request. */
  ask(
    action: string,
    parameters: Readonly<Record<string, string | number>> = {},
    changes: RequestChanges = {},
  ): Ec2Answer {
    const form = formOf(action, parameters);
    const request = signedRequest("http://ec2.test/", { form, ...changes });
    const { status, body } = this.#ec2.answer({ ...request, from: "" });
    return readAnswer(status, body);
  }

  /** The same of a request that has to be answered. */
  do(
    action: string,
    parameters: Readonly<Record<string, string | number>> = {},
  ): Ec2Answer {
    const answer = this.ask(action, parameters);
    if (answer.status === 200) return answer;
    throw new Error(`Cannot ${action}: ${answer.xml}`);
  }

  /** The code with which a request is refused, or "". */
  refusal(
    action: string,
    parameters: Readonly<Record<string, string | number>> = {},
  ): string {
    return this.ask(action, parameters).all("Code").join();
  }

  /** The ID of a new ENI in the first subnet. */
  create(parameters: Readonly<Record<string, string | number>> = {}): string {
    const [subnet] = this.#config.subnets;
    const where = { SubnetId: subnet?.id ?? "" };
    const answer = this.do("CreateNetworkInterface", {
      ...where,
      ...parameters,
    });
    return answer.all("networkInterfaceId")[0] ?? "";
  }

  /** The ID of the attachment of an ENI to the first instance. */
  attach(eniId: string, deviceIndex: number): string {
    const [instance] = this.#config.instances;
    const answer = this.do("AttachNetworkInterface", {
      NetworkInterfaceId: eniId,
      InstanceId: instance?.id ?? "",
      DeviceIndex: deviceIndex,
    });
    return answer.all("attachmentId")[0] ?? "";
  }
}
