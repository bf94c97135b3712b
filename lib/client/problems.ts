/** A server's problem details as an error. */
import { CATALOGUE, type ErrorCode, type SvcError } from "../base/errors.ts";
import { fromProblem, type Problem, PROBLEM_TYPE } from "../api/problem.ts";
import type { Answer } from "./local_http.ts";
import { kindOf, noneOfOurs } from "./ours.ts";

/** The error of a failed call: the server's problem details, or that the answer is not svc's. */
export async function responseError(response: Answer, server: string): Promise<SvcError> {
  const type = response.headers.get("content-type") ?? "";
  const text = await response.text().catch(() => "");
  if (type.startsWith(PROBLEM_TYPE) || type.startsWith("application/json")) {
    const problem = parseProblem(text);
    if (problem) return problem;
  }
  return noneOfOurs(server, kindOf(response));
}

/** Codes that only a newer server knows become `upstream_failed`. */
export function problemError(problem: Problem): SvcError {
  if (Object.hasOwn(CATALOGUE, problem.code)) return fromProblem(problem);
  return fromProblem({ ...problem, code: "upstream_failed" satisfies ErrorCode });
}

function parseProblem(text: string): SvcError | undefined {
  try {
    const problem = JSON.parse(text) as Partial<Problem> | null;
    if (typeof problem?.code !== "string" || typeof problem.detail !== "string") return undefined;
    return problemError({ help: "", title: "", status: 500, ...problem } as Problem);
  } catch {
    return undefined;
  }
}
