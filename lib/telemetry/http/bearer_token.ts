/** Returns the bearer token of a request (RFC 6750, section 2.1); undefined without one. */
export function bearerTokenOf(request: Request): string | undefined {
  const header = request.headers.get("authorization") ?? "";
  return /^Bearer +([-._~+/A-Za-z0-9]+=*)$/i.exec(header)?.[1];
}
