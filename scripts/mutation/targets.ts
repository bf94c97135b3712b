/** What scripts/mutate.ts changes, and the tests that have to find it. */
export interface Target {
  sources: readonly string[];
  /** Test files, and folders of them, that must find every defect in these sources. */
  tests: readonly string[];
}

export const TARGETS: Record<string, Target> = {
  auth: {
    sources: [
      "lib/auth/access.ts",
      "lib/auth/authenticator.ts",
      "lib/auth/credential.ts",
      "lib/auth/token_exchange.ts",
      "lib/auth/internal.ts",
      "lib/auth/own_tokens.ts",
      "lib/auth/registry_tokens.ts",
      "lib/auth/sealed.ts",
      "lib/auth/static_token.ts",
      "lib/auth/token_cache.ts",
      "lib/auth/jwt/scope_map.ts",
      "lib/auth/jwt/verifier.ts",
      "lib/auth/ssh/authorized_keys.ts",
      "lib/auth/ssh/enrolment.ts",
      "lib/auth/ssh/sessions.ts",
      "lib/auth/ssh/sshsig.ts",
    ],
    tests: ["lib/auth", "lib/server/auth"],
  },
  policy: {
    sources: [
      "lib/auth/glob.ts",
      "lib/auth/policy.ts",
      "lib/auth/scope.ts",
      "lib/deploy/bind_policy.ts",
      "lib/deploy/privileges.ts",
      "lib/server/access.ts",
      "lib/server/foreign_page.ts",
      "lib/server/own_networks.ts",
    ],
    tests: [
      "lib/auth/glob_test.ts",
      "lib/auth/scope_test.ts",
      "lib/auth/access_test.ts",
      "lib/auth/internal_test.ts",
      "lib/server/access_test.ts",
      "lib/deploy/privileges_test.ts",
      "lib/deploy/bind_policy_test.ts",
      "lib/server/router_test.ts",
      "lib/server/own_networks_test.ts",
      "lib/server/foreign_page_test.ts",
      "lib/server/auth",
    ],
  },
  gc: {
    sources: [
      "lib/store/gc/collect.ts",
      "lib/store/gc/digest_set.ts",
      "lib/store/gc/guard.ts",
      "lib/store/gc/lease_claim.ts",
      "lib/store/gc/lease_table.ts",
      "lib/store/gc/local_guard.ts",
      "lib/store/gc/mark.ts",
      "lib/store/gc/notes.ts",
      "lib/store/gc/shared_guard.ts",
      "lib/store/record_places.ts",
      "lib/store/standing.ts",
    ],
    tests: [
      "lib/store/gc",
      "test/contract/record_places_test.ts",
      "test/contract/gc_test.ts",
      "test/contract/gc_report_test.ts",
      "test/contract/gc_late_removals_test.ts",
      "test/contract/gc_interleaving_test.ts",
    ],
  },
  uploads: {
    sources: ["lib/store/uploads.ts", "backends/store/shared/upload_state.ts"],
    tests: [
      "lib/store/uploads_test.ts",
      "lib/store/upload_sessions_test.ts",
      "backends/store/shared",
      "test/contract/content_store_test.ts",
      "test/contract/intake_test.ts",
    ],
  },
};
