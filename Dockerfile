# The image of every role, by a container engine. `deno task image` makes the
# same files without one; docs/image.md says more. For a release, pin:
#
#   docker buildx build --build-arg BUILD_IMAGE=node:22-bookworm@sha256:… \
#     --build-arg SOURCE_DATE_EPOCH=0 \
#     --output type=image,name=coil:0.1.0,rewrite-timestamp=true .
#
# Debian's release of this image is that of Coil's libraries, too; its gcc makes
# the front.
ARG BUILD_IMAGE=node:22-bookworm
# Seconds since 1970: the time of all files. It becomes the image's own where the
# engine is asked to, as above; docs/image.md has buildah's way.
ARG SOURCE_DATE_EPOCH=0

FROM ${BUILD_IMAGE} AS build
ARG SOURCE_DATE_EPOCH
WORKDIR /src
COPY . .
RUN npx --yes deno@2.9.6 task image --rootfs /rootfs

# Libraries, modprobe, certificate authorities and the executable with a link of
# every role's name. No shell.
FROM scratch
COPY --from=build /rootfs/ /
ENV PATH=/usr/local/coil:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /
# What the controller, the migrator and the command line need. A pod of coild,
# coil-installer, coil-router or coil-egress says `runAsUser: 0`.
USER 65532:65532
CMD ["coil", "--help"]
LABEL org.opencontainers.image.title="Coil" \
      org.opencontainers.image.description="Kubernetes network plugin: address pools, pod network, egress gateways" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
