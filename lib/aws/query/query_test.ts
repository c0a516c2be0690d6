import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { CallBudget } from "./budget.ts";
import { CredentialSource } from "./credential_source.ts";
import { AwsError, AwsNoAnswerError } from "../base/errors.ts";
import { endpointOf, pairsOf, QueryClient } from "./query.ts";
import { Credentials } from "../base/sign.ts";
import { type Answering, ec2Refusal, LoopbackServer } from "../testing.ts";

const CALL = { name: "DescribeSubnets", kind: "read" } as const;
const ANSWER =
  "<DescribeSubnetsResponse><subnetSet>a</subnetSet></DescribeSubnetsResponse>";
const SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

interface Bed extends AsyncDisposable {
  readonly server: LoopbackServer;
  readonly client: QueryClient;
  /** How often keys were issued. */
  readonly issued: () => number;
}

/** A client whose keys are renewed, before a server. */
function bed(
  answer: Answering,
  { lifetimeMs = 3_600_000, maxAttempts = 1, timeoutMs = 5_000 } = {},
): Bed {
  let issued = 0;
  const server = new LoopbackServer(answer);
  const client = new QueryClient({
    service: "ec2",
    version: "2016-11-15",
    region: "eu-west-1",
    endpoint: server.url,
    timeoutMs,
    budget: new CallBudget({ maxAttempts, random: () => 0 }),
    credentials: new CredentialSource(async () => ({
      credentials: new Credentials({
        accessKeyId: `AKID${++issued}`,
        secretAccessKey: SECRET,
        sessionToken: "session-token",
      }),
      lifetimeMs,
    })),
  });
  return {
    server,
    client,
    issued: () => issued,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

Deno.test("call() posts a form, signed, and returns the answer", async () => {
  await using on = bed(() => new Response(ANSWER));
  const root = await on.client.call(CALL, {
    SubnetId: ["subnet-1"],
    Filter: [{ Name: "vpc-id", Value: ["a b", "c&d=é"] }],
    DryRun: undefined,
  });
  assert.equal(root.name, "DescribeSubnetsResponse");
  assert.deepEqual(on.server.forms, [{
    Action: "DescribeSubnets",
    Version: "2016-11-15",
    "SubnetId.1": "subnet-1",
    "Filter.1.Name": "vpc-id",
    "Filter.1.Value.1": "a b",
    "Filter.1.Value.2": "c&d=é",
  }]);
  const [seen] = on.server.seen;
  assert.equal(seen?.method, "POST");
  assert.equal(
    seen.headers.get("content-type"),
    "application/x-www-form-urlencoded; charset=utf-8",
  );
  // The signature that the server works out from what came.
  const signed = await new Credentials({
    accessKeyId: "AKID1",
    secretAccessKey: SECRET,
    sessionToken: "session-token",
  }).sign({
    method: "POST",
    url: `${on.server.url}/`,
    headers: { "content-type": seen.headers.get("content-type") ?? "" },
    body: seen.body,
  }, {
    service: "ec2",
    region: "eu-west-1",
    datetime: seen.headers.get("x-amz-date") ?? "",
  });
  assert.equal(
    seen.headers.get("authorization"),
    signed.headers["authorization"],
  );
  assert.equal(seen.headers.get("x-amz-security-token"), "session-token");
});

Deno.test("call() throws EC2's refusal with its code, the call and what to do", async () => {
  await using on = bed(() => ec2Refusal("UnauthorizedOperation", 403));
  await assert.rejects(on.client.call(CALL, {}), (error) => {
    assert.ok(error instanceof AwsError);
    assert.equal(
      error.message,
      "Cannot call DescribeSubnets of EC2: UnauthorizedOperation: No; " +
        "allow ec2:DescribeSubnets in the policy of the node's role",
    );
    const { code, status, requestId, isDenied } = error;
    assert.deepEqual(
      { code, status, requestId, isDenied },
      {
        code: "UnauthorizedOperation",
        status: 403,
        requestId: "r-1",
        isDenied: true,
      },
    );
    return true;
  });
  assert.equal(on.server.seen.length, 1);
});

Deno.test("call() names the status of an answer that is not AWS' own", async () => {
  await using on = bed(() =>
    new Response("<html>Bad Gateway", { status: 502 })
  );
  await assert.rejects(on.client.call(CALL, {}), (error) => {
    assert.ok(error instanceof AwsError && error.isTransient);
    assert.equal(
      error.message,
      "Cannot call DescribeSubnets of EC2: HTTP status 502",
    );
    return true;
  });
});

Deno.test("call() does not follow a redirect: the signature is for one place", async () => {
  await using on = bed(() =>
    new Response(null, { status: 302, headers: { location: "/other" } })
  );
  await assert.rejects(on.client.call(CALL, {}), /HTTP status 302/);
  assert.equal(on.server.seen.length, 1);
});

Deno.test("call() makes a throttled call again, and then gets the answer", async () => {
  await using on = bed(
    (_, count) =>
      count < 3
        ? ec2Refusal("RequestLimitExceeded", 503)
        : new Response(ANSWER),
    {
      maxAttempts: 3,
    },
  );
  await on.client.call(CALL, {});
  assert.equal(on.server.seen.length, 3);
});

const HALVES: Readonly<Record<string, Answering>> = {
  "is cut in the middle": () => new Response(ANSWER.slice(0, 30)),
  "is of another call": () => new Response("<DescribeVpcsResponse/>"),
  "breaks off": () =>
    new Response(
      new ReadableStream<Uint8Array>({
        start(body) {
          body.enqueue(new TextEncoder().encode(ANSWER.slice(0, 30)));
          body.error(new Error("cut"));
        },
      }),
    ),
  "is not UTF-8": () =>
    new Response(
      new Uint8Array(
        [...new TextEncoder().encode(ANSWER)].toSpliced(36, 0, 255),
      ),
    ),
};
for (const [what, answer] of Object.entries(HALVES)) {
  Deno.test(`call() does not take an answer that ${what}`, async () => {
    await using on = bed(answer);
    await assert.rejects(on.client.call(CALL, {}), AwsNoAnswerError);
  });
}

Deno.test("call() ends when its time is up, before an answer and in the middle of one", async () => {
  const begun = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        start: (body) => body.enqueue(new TextEncoder().encode("<Describe")),
      }),
    );
  for (const answer of [() => new Promise<Response>(() => {}), begun]) {
    await using on = bed(answer, { timeoutMs: 100 });
    await assert.rejects(on.client.call(CALL, {}), (error) => {
      assert.ok(error instanceof AwsNoAnswerError);
      assert.match(error.message, /EC2 at "http:.*no answer within 100 ms/);
      return true;
    });
  }
});

Deno.test("call() ends when its signal aborts", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  await using on = bed(() => {
    abort.abort(reason);
    return new Promise<Response>(() => {});
  });
  await assert.rejects(
    on.client.call(CALL, {}, { signal: abort.signal }),
    (error) => error === reason,
  );
});

const CHANGE = { name: "DeleteNetworkInterface", kind: "change" } as const;

Deno.test("call() waits for the answer to a change that was sent, although its signal aborts", async () => {
  const abort = new AbortController();
  await using on = bed(() => {
    abort.abort();
    return new Response("<DeleteNetworkInterfaceResponse/>");
  });
  const { name } = await on.client.call(CHANGE, {}, abort);
  assert.equal(name, "DeleteNetworkInterfaceResponse");
});

Deno.test("call() does not send a change after its signal, also where it was throttled before", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  await using on = bed(() => {
    abort.abort(reason);
    return ec2Refusal("RequestLimitExceeded", 503);
  }, { maxAttempts: 3 });
  for (const sent of [1, 1]) {
    await assert.rejects(
      on.client.call(CHANGE, {}, abort),
      (error) => error === reason,
    );
    assert.equal(on.server.seen.length, sent);
  }
});

Deno.test("call() says why nothing answers", async () => {
  const on = bed(() => new Response(ANSWER));
  await on[Symbol.asyncDispose]();
  const client = new QueryClient({
    service: "ec2",
    version: "2016-11-15",
    region: "eu-west-1",
    endpoint: on.server.url,
    budget: new CallBudget({ maxAttempts: 1 }),
  });
  using _closed = client;
  await assert.rejects(client.call(CALL, {}), (error) => {
    assert.ok(error instanceof AwsNoAnswerError);
    assert.match(error.message, /Cannot reach EC2 at .*Connection refused/);
    return true;
  });
});

Deno.test("call() asks for other keys once when AWS does not take these", async () => {
  await using on = bed((request) =>
    request.headers.get("authorization")?.includes("AKID2/")
      ? new Response(ANSWER)
      : ec2Refusal("RequestExpired")
  );
  await on.client.call(CALL, {});
  assert.deepEqual([on.issued(), on.server.seen.length], [2, 2]);
});

Deno.test("call() does not ask for other keys more than once", async () => {
  await using on = bed(() => ec2Refusal("AuthFailure", 401));
  await assert.rejects(on.client.call(CALL, {}), /AuthFailure/);
  assert.deepEqual([on.issued(), on.server.seen.length], [2, 2]);
});

Deno.test("call() has no secret in any error", async () => {
  const answers: readonly Answering[] = [
    () => ec2Refusal("SignatureDoesNotMatch", 403),
    () => new Response("no XML"),
    () => Promise.reject(new Error("fails")),
  ];
  for (const answer of answers) {
    await using on = bed(answer);
    await assert.rejects(on.client.call(CALL, {}), (error) => {
      const shown = Deno.inspect(error, { depth: 9, showHidden: true });
      assert.doesNotMatch(shown, /wJalr|session-token/);
      return true;
    });
  }
});

Deno.test("pairsOf() numbers lists and joins names", () => {
  const pairs = [...pairsOf({
    A: [{ B: ["x", "y"], C: { D: 1 } }, { B: [] }],
    E: false,
    F: undefined,
  })];
  assert.deepEqual(pairs, [
    ["A.1.B.1", "x"],
    ["A.1.B.2", "y"],
    ["A.1.C.D", "1"],
    ["E", "false"],
  ]);
});

Deno.test("endpointOf() goes by the environment, then by the region", () => {
  const at = (region: string, env: Readonly<Record<string, string>> = {}) =>
    endpointOf("ec2", { region, env: new Map(Object.entries(env)) });
  assert.equal(at("eu-west-1"), "https://ec2.eu-west-1.amazonaws.com/");
  assert.equal(at("cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn/");
  const all = {
    AWS_ENDPOINT_URL: "http://a",
    AWS_ENDPOINT_URL_STS: "http://b",
  };
  assert.equal(at("eu-west-1", all), "http://a");
  assert.equal(
    at("eu-west-1", { ...all, AWS_ENDPOINT_URL_EC2: "http://c" }),
    "http://c",
  );
});

Deno.test("QueryClient refuses an endpoint that is no URL", () => {
  for (const endpoint of ["ec2.eu-west-1", "ftp://host"]) {
    assert.throws(
      () =>
        new QueryClient({
          service: "ec2",
          version: "2016-11-15",
          region: "eu-west-1",
          endpoint,
          budget: new CallBudget(),
        }),
      /as endpoint of EC2: needs the form/,
    );
  }
});

Deno.test("call() sends a request once, although the peer closes a connection that was used before", async () => {
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    request.resume();
    if (requests === 2) request.socket.destroy();
    else response.end(ANSWER);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  {
    using client = new QueryClient({
      service: "ec2",
      version: "2016-11-15",
      region: "eu-west-1",
      endpoint: `http://127.0.0.1:${port}`,
      budget: new CallBudget({ maxAttempts: 1 }),
    });
    await client.call(CALL, {});
    await assert.rejects(client.call(CALL, {}), AwsNoAnswerError);
  }
  await new Promise((resolve) => server.close(resolve));
  assert.equal(requests, 2);
});
