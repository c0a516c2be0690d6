import {
  CallBudget,
  credentialSourceOf,
  Ec2Client,
  endpointOf,
  ImdsClient,
} from "../../../lib/aws/mod.ts";

/** EC2 in the region of the environment, else of the instance that this runs on. */
export class RegionAccount implements Disposable {
  readonly #env: Pick<Deno.Env, "get">;
  readonly #imds: ImdsClient;
  #ec2: Ec2Client | undefined;

  constructor(env: Pick<Deno.Env, "get">) {
    this.#env = env;
    this.#imds = new ImdsClient({ env });
  }

  /**
   * EC2's client, once the region is known.
   *
   * @throws {ImdsError} or {AwsNoAnswerError} when it cannot be found out
   * @throws {CredentialsError} when the environment has only half of what it needs
   */
  async open(signal: AbortSignal): Promise<Ec2Client> {
    if (this.#ec2 !== undefined) return this.#ec2;
    const env = this.#env;
    const region = env.get("AWS_REGION") || env.get("AWS_DEFAULT_REGION") ||
      await this.#imds.get("meta-data/placement/region", { signal });
    return this.#ec2 = new Ec2Client({
      region,
      endpoint: endpointOf("ec2", { region, env }),
      credentials: credentialSourceOf({ env, region, imds: this.#imds }),
      budget: new CallBudget(),
    });
  }

  [Symbol.dispose](): void {
    this.#ec2?.[Symbol.dispose]();
    this.#imds[Symbol.dispose]();
  }
}
