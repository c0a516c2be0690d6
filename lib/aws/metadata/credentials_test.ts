import assert from "node:assert/strict";
import { credentialSourceOf } from "./credentials.ts";
import { CredentialsError } from "../base/errors.ts";
import { ImdsClient } from "./imds.ts";
import { type Answering, LoopbackServer } from "../testing.ts";

const REGION = "eu-west-1";
const KEYS = {
  AccessKeyId: "ASIA1",
  SecretAccessKey: "hidden-secret",
  Token: "hidden-token",
};

/** What is issued with these variables, which may name the server, before one that answers so. */
async function issued(
  answer: Answering,
  envFor: (url: string) => Readonly<Record<string, string>>,
): Promise<{ id: string; server: LoopbackServer; lasts: boolean }> {
  await using server = new LoopbackServer(answer);
  const env = new Map(Object.entries({
    AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url,
    ...envFor(server.url),
  }));
  using imds = new ImdsClient({ env });
  const source = credentialSourceOf({ env, region: REGION, imds });
  const { accessKeyId: id } = await source.current();
  const before = server.seen.length;
  await source.current();
  return { id, server, lasts: server.seen.length === before };
}

/** As {@linkcode issued}, which has to fail: says why, and shows no secret. */
async function refused(
  answer: Answering,
  envFor: (url: string) => Readonly<Record<string, string>>,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  await assert.rejects(issued(answer, envFor), (error) => {
    assert.ok(error instanceof CredentialsError);
    const shown = Deno.inspect(error, { depth: 9, showHidden: true });
    assert.doesNotMatch(shown, /hidden-/);
    resolve(error.message);
    return true;
  });
  return await promise;
}

/** An answer whose keys are good for so long by the server's clock. */
function keysFor(ms: number): Response {
  const now = Math.floor(Date.parse("2020-01-01T00:00:00Z"));
  const Expiration = new Date(now + ms).toISOString();
  return Response.json({ Code: "Success", ...KEYS, Expiration }, {
    headers: { date: new Date(now).toUTCString() },
  });
}

const NEVER: Answering = () => new Response(null, { status: 500 });

Deno.test("credentials of the environment need no request", async () => {
  const { id, server } = await issued(NEVER, (url) => ({
    AWS_ACCESS_KEY_ID: "AKIA1",
    AWS_SECRET_ACCESS_KEY: "hidden-secret",
    AWS_SESSION_TOKEN: "hidden-token",
    AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
  }));
  assert.equal(id, "AKIA1");
  assert.equal(server.seen.length, 0);
});

Deno.test("a session token of the environment that no header can have is an error", async () => {
  const why = await refused(NEVER, () => ({
    AWS_ACCESS_KEY_ID: "AKIA1",
    AWS_SECRET_ACCESS_KEY: "hidden-secret",
    AWS_SESSION_TOKEN: "hidden-\ntoken",
  }));
  assert.match(why, /the environment.*session token/);
});

Deno.test("half of what the environment should have is an error that names the other half", async () => {
  const halves: readonly [Record<string, string>, string][] = [
    [{ AWS_ACCESS_KEY_ID: "AKIA1" }, "AWS_SECRET_ACCESS_KEY"],
    [{ AWS_SECRET_ACCESS_KEY: "hidden-secret" }, "AWS_ACCESS_KEY_ID"],
    [{ AWS_WEB_IDENTITY_TOKEN_FILE: "/f" }, "AWS_ROLE_ARN"],
  ];
  for (const [env, missing] of halves) {
    assert.equal(
      await refused(NEVER, () => env),
      `Cannot get credentials from the environment: ${missing} is not set`,
    );
  }
});

const STS_ANSWER = `<AssumeRoleWithWebIdentityResponse>
  <AssumeRoleWithWebIdentityResult><Credentials>
    <AccessKeyId>ASIA2</AccessKeyId>
    <SecretAccessKey>hidden-secret</SecretAccessKey>
    <SessionToken>hidden-token</SessionToken>
    <Expiration>2020-01-01T00:00:00Z</Expiration>
  </Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`;

async function webIdentity(): Promise<
  { env: (url: string) => Record<string, string> } & AsyncDisposable
> {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "hidden-jwt\n");
  return {
    env: (url) => ({
      AWS_WEB_IDENTITY_TOKEN_FILE: file,
      AWS_ROLE_ARN: "arn:aws:iam::1:role/node",
      AWS_ENDPOINT_URL_STS: url,
    }),
    [Symbol.asyncDispose]: () => Deno.remove(file),
  };
}

Deno.test("a web identity gets the keys of its role from STS, by a call that is not signed", async () => {
  await using identity = await webIdentity();
  const { id, server, lasts } = await issued(
    () => new Response(STS_ANSWER),
    identity.env,
  );
  assert.equal(id, "ASIA2");
  assert.ok(lasts);
  assert.deepEqual(server.forms, [{
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: "arn:aws:iam::1:role/node",
    RoleSessionName: "node",
    DurationSeconds: "3600",
    WebIdentityToken: "hidden-jwt",
  }]);
  assert.equal(server.seen[0]?.headers.get("authorization"), null);
});

Deno.test("a session with a role has the name that the environment gives it", async () => {
  await using identity = await webIdentity();
  const { server } = await issued(() => new Response(STS_ANSWER), (url) => ({
    ...identity.env(url),
    AWS_ROLE_SESSION_NAME: "node-7",
  }));
  assert.equal(server.forms[0]?.["RoleSessionName"], "node-7");
});

Deno.test("STS' refusal of a web identity says what to do", async () => {
  await using identity = await webIdentity();
  const message = await refused(
    () =>
      new Response(
        "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>" +
          "<Message>Not authorized</Message></Error><RequestId>r</RequestId>" +
          "</ErrorResponse>",
        { status: 403 },
      ),
    identity.env,
  );
  assert.match(
    message,
    /^Cannot get credentials from role "arn:.*node" by the web identity in ".*": Cannot call AssumeRoleWithWebIdentity of STS: AccessDenied: Not authorized; check the trust policy/,
  );
});

Deno.test("STS' answer without a key is an error that shows none", async () => {
  await using identity = await webIdentity();
  const half = STS_ANSWER.replace(/<SecretAccessKey>.*\n/, "");
  assert.match(
    await refused(() => new Response(half), identity.env),
    /the answer lacks a key$/,
  );
});

Deno.test("a file of a web identity that is not there is named", async () => {
  const message = await refused(NEVER, () => ({
    AWS_WEB_IDENTITY_TOKEN_FILE: "/no/such/file",
    AWS_ROLE_ARN: "arn:aws:iam::1:role/node",
  }));
  assert.match(message, /web identity in "\/no\/such\/file": No such file/);
});

Deno.test("a container's agent is asked with the token, which is read from its file each time", async () => {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "first\n");
  try {
    const { id, server } = await issued(async () => {
      await Deno.writeTextFile(file, "second\n");
      return keysFor(0);
    }, (url) => ({
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: "not-this",
    }));
    assert.equal(id, "ASIA1");
    assert.deepEqual(
      server.seen.map(({ path, headers }) => [
        path,
        headers.get("authorization"),
      ]),
      [["/v1/credentials", "first"], ["/v1/credentials", "second"]],
    );
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("a container's agent elsewhere is asked by TLS only", async () => {
  for (const url of ["http://192.0.2.1/", "http://127.evil.example/", "x"]) {
    assert.match(
      await refused(NEVER, () => ({
        AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
      })),
      /without TLS only agents on this machine are asked/,
    );
  }
});

Deno.test("a container's path leads to no other host, and comes before a whole address", async () => {
  for (const path of ["@evil.example/", ".evil.example/"]) {
    const message = await refused(NEVER, (url) => ({
      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: path,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
    }));
    assert.equal(
      message,
      `Cannot get credentials from "http://169.254.170.2${path}": without TLS only agents on this machine are asked`,
    );
  }
});

const CONTAINER = (url: string) => ({
  AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
  AWS_CONTAINER_AUTHORIZATION_TOKEN: "hidden-token",
});

Deno.test("what a container's agent answers is not in errors", async () => {
  const answers: readonly [Answering, RegExp][] = [
    [() => new Response("hidden-secret", { status: 400 }), /HTTP status 400$/],
    [() => new Response('{"Token": "hidden-token'), /not a JSON object$/],
    [() => new Response("null"), /not a JSON object$/],
    [() => Response.json({ ...KEYS, AccessKeyId: 1 }), /lacks a key$/],
    [
      () => Response.json({ ...KEYS, SecretAccessKey: "hidden-\n" }),
      /secret access key: it has characters/,
    ],
    [() => Response.json({ Code: "Failed", ...KEYS }), /code Failed$/],
  ];
  for (const [answer, why] of answers) {
    assert.match(await refused(answer, CONTAINER), why);
  }
});

Deno.test("a token for a container's agent that no header can have is not in the error", async () => {
  const message = await refused(NEVER, (url) => ({
    ...CONTAINER(url),
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "hidden-\ntoken",
  }));
  assert.match(message, /the container's authorization token: it has charact/);
});

Deno.test("keys live by the clock of the one who issued them", async () => {
  const good = await issued(() => keysFor(3_600_000), CONTAINER);
  assert.ok(good.lasts);
  const ended = await issued(() => keysFor(-1_000), CONTAINER);
  assert.ok(!ended.lasts);
  const unknown = await issued(() => Response.json(KEYS), CONTAINER);
  assert.ok(unknown.lasts);
});

Deno.test("the instance's role is what is left", async () => {
  const below = "/latest/meta-data/iam/security-credentials/";
  const { id, server } = await issued(({ method, path }) => {
    if (method === "PUT") return new Response("token");
    return path === below ? new Response("node-role") : keysFor(3_600_000);
  }, () => ({}));
  assert.equal(id, "ASIA1");
  assert.deepEqual(
    server.seen.map(({ path }) => path),
    ["/latest/api/token", below, `${below}node-role`],
  );
});

Deno.test("an instance without a role says so", async () => {
  const message = await refused(
    ({ method }) =>
      method === "PUT"
        ? new Response("token")
        : new Response(null, { status: 404 }),
    () => ({}),
  );
  assert.equal(
    message,
    "Cannot get credentials from the instance's role: it has none; give the instance a profile with a role",
  );
});
