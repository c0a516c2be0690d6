import type { Clock } from "../../async/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import { CallBudget } from "../query/budget.ts";
import {
  CredentialSource,
  type IssuedCredentials,
  type Issuer,
} from "../query/credential_source.ts";
import { CredentialsError } from "../base/errors.ts";
import { type HttpAnswer, HttpClient } from "../base/http.ts";
import { tryParseJsonObject } from "../../json/mod.ts";
import type { ImdsClient } from "./imds.ts";
import { endpointOf, QueryClient } from "../query/query.ts";
import { checkPrintable, Credentials } from "../base/sign.ts";
import { textAt } from "../base/xml.ts";

/** The least that any role allows. */
const ROLE_S = 3_600;
/** Assumed where an answer does not say how long its keys are good. */
const UNKNOWN_LIFETIME_MS = 900_000;
const TIMEOUT_MS = 5_000;
/** Where containers of ECS get theirs. */
const CONTAINER_ENDPOINT = "http://169.254.170.2";
/** Where a token may go without TLS: this machine, the agents of ECS and of EKS. */
const LOCAL_HOST =
  /^(localhost|127(\.\d+){3}|\[::1\]|169\.254\.170\.(2|23)|\[fd00:ec2::23\])$/;

/** Where keys come from. */
export interface CredentialSourceOptions {
  /** Says which of the ways it is, as for AWS' own tools. */
  readonly env: Pick<Deno.Env, "get">;
  readonly region: string;
  /** Asked for the keys of the instance's role when the environment names no other. */
  readonly imds: ImdsClient;
  readonly clock?: Clock;
}

/**
 * The keys that the environment says: given there, or those of a role by a web identity (AWS_WEB_IDENTITY_TOKEN_FILE)
 * or of a container (AWS_CONTAINER_CREDENTIALS_FULL_URI); else those of the instance's role. The first that is
 * configured is used, and no other when it fails.
 *
 * @throws {CredentialsError} when the environment has only half of what a way needs
 */
export function credentialSourceOf(
  options: CredentialSourceOptions,
): CredentialSource {
  const { env, imds, clock } = options;
  const issue = ofEnvironment(env) ?? ofWebIdentity(options) ??
    ofContainer(env) ?? ((o) => ofInstance(imds, o));
  return new CredentialSource(issue, { clock });
}

function ofEnvironment(env: Pick<Deno.Env, "get">): Issuer | undefined {
  const [id, secret] = bothOf(env, [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
  ]);
  if (id === undefined || secret === undefined) return undefined;
  const credentials = checked(
    "the environment",
    () =>
      new Credentials({
        accessKeyId: id,
        secretAccessKey: secret,
        sessionToken: env.get("AWS_SESSION_TOKEN") || undefined,
      }),
  );
  return () => Promise.resolve({ credentials, lifetimeMs: undefined });
}

function ofWebIdentity(
  { env, region, clock }: CredentialSourceOptions,
): Issuer | undefined {
  const [file, role] = bothOf(env, [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
  ]);
  if (file === undefined || role === undefined) return undefined;
  const endpoint = endpointOf("sts", { region, env });
  const where = `role "${role}" by the web identity in "${file}"`;
  return (options) =>
    from(where, async () => {
      using sts = new QueryClient({
        service: "sts",
        version: "2011-06-15",
        region,
        endpoint,
        timeoutMs: TIMEOUT_MS,
        budget: new CallBudget({ clock }),
      });
      const answer = await sts.call(
        {
          name: "AssumeRoleWithWebIdentity",
          kind: "change",
          isRepeatable: true,
        },
        {
          RoleArn: role,
          RoleSessionName: env.get("AWS_ROLE_SESSION_NAME") || "node",
          DurationSeconds: ROLE_S,
          WebIdentityToken: (await Deno.readTextFile(file)).trim(),
        },
        options,
      );
      const text = (name: string) =>
        textAt(
          answer,
          "AssumeRoleWithWebIdentityResult",
          "Credentials",
          name,
        );
      return {
        credentials: credentialsOf({
          AccessKeyId: text("AccessKeyId"),
          SecretAccessKey: text("SecretAccessKey"),
          Token: text("SessionToken"),
        }),
        lifetimeMs: ROLE_S * 1_000,
      };
    });
}

function ofContainer(env: Pick<Deno.Env, "get">): Issuer | undefined {
  const path = env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const url = path
    ? `${CONTAINER_ENDPOINT}${path}`
    : env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!url) return undefined;
  const { protocol, hostname } = URL.parse(url) ?? {};
  const isLocal = protocol === "http:" && LOCAL_HOST.test(hostname ?? "");
  if (protocol !== "https:" && !isLocal) {
    throw new CredentialsError(
      `Cannot get credentials from "${url}": without TLS only agents on this machine are asked`,
    );
  }
  return (options) =>
    from(`"${url}"`, async () => {
      using http = new HttpClient({
        peer: "the container's agent",
        endpoint: url,
        timeoutMs: TIMEOUT_MS,
        isLocal,
      });
      const headers = await containerHeaders(env);
      const answer = await http.send({ method: "GET", url, headers }, options);
      if (answer.status !== 200) {
        throw new CredentialsError(`HTTP status ${answer.status}`);
      }
      return readAnswer(answer);
    });
}

/** The token is read each time: kubelet replaces it. */
async function containerHeaders(
  env: Pick<Deno.Env, "get">,
): Promise<Record<string, string>> {
  const file = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const token = file
    ? (await Deno.readTextFile(file)).trim()
    : env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (!token) return {};
  checkPrintable("the container's authorization token", token);
  return { authorization: token };
}

async function ofInstance(
  imds: ImdsClient,
  options: { readonly signal: AbortSignal },
): Promise<IssuedCredentials> {
  const below = "meta-data/iam/security-credentials/";
  return await from("the instance's role", async () => {
    const [role] = await imds.list(below, options);
    if (role === undefined) {
      throw new CredentialsError(
        "it has none; give the instance a profile with a role",
      );
    }
    return readAnswer(await imds.answer(`${below}${role}`, options));
  });
}

/** Keys as IMDS and agents of containers give them. */
function readAnswer({ headers, body }: HttpAnswer): IssuedCredentials {
  const answer = tryParseJsonObject(body);
  if (answer === undefined) {
    throw new CredentialsError("the answer is not a JSON object");
  }
  const code = answer["Code"] ?? "Success";
  if (code !== "Success") throw new CredentialsError(`code ${code}`);
  // By the clock of the one that answers: the node's may be wrong.
  const lifetimeMs = Date.parse(`${answer["Expiration"]}`) -
    Date.parse(headers.get("date") ?? "");
  return {
    credentials: credentialsOf(answer),
    lifetimeMs: Number.isNaN(lifetimeMs)
      ? UNKNOWN_LIFETIME_MS
      : Math.max(0, lifetimeMs),
  };
}

function credentialsOf(answer: Readonly<Record<string, unknown>>): Credentials {
  const { AccessKeyId, SecretAccessKey, Token } = answer;
  const isWhole = typeof AccessKeyId === "string" &&
    typeof SecretAccessKey === "string" &&
    (typeof Token === "string" || Token === undefined);
  if (!isWhole) throw new CredentialsError("the answer lacks a key");
  return new Credentials({
    accessKeyId: AccessKeyId,
    secretAccessKey: SecretAccessKey,
    sessionToken: Token,
  });
}

/** Both variables or none. */
function bothOf(
  env: Pick<Deno.Env, "get">,
  [one, other]: readonly [string, string],
): [string | undefined, string | undefined] {
  const values: [string | undefined, string | undefined] = [
    env.get(one) || undefined,
    env.get(other) || undefined,
  ];
  const missing = values[0] === undefined ? one : other;
  if ((values[0] === undefined) === (values[1] === undefined)) return values;
  throw new CredentialsError(
    `Cannot get credentials from the environment: ${missing} is not set`,
  );
}

function checked<T>(where: string, make: () => T): T {
  try {
    return make();
  } catch (cause) {
    throw credentialsError(where, cause);
  }
}

async function from<T>(where: string, get: () => Promise<T>): Promise<T> {
  try {
    return await get();
  } catch (cause) {
    throw credentialsError(where, cause);
  }
}

function credentialsError(where: string, cause: unknown): CredentialsError {
  return new CredentialsError(
    `Cannot get credentials from ${where}: ${messageOf(cause)}`,
    { cause },
  );
}
