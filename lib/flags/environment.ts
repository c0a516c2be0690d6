/**
 * The value of an environment variable that a program cannot start without.
 *
 * @throws {Error} when it is not set, or empty.
 */
export function requiredEnv(
  name: string,
  env: Pick<Deno.Env, "get"> = Deno.env,
): string {
  const value = env.get(name) ?? "";
  if (value !== "") return value;
  throw new Error(`Cannot start: environment variable ${name} is not set`);
}
