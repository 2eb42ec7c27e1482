"""What `validate --on-device` asks: the last part of the script, after those that it names."""

WORKLOADS = {
    "identity": identity,
    "step": step,
    "beside": beside,
    "swap": swap,
    "program": program,
    "pipeline": pipeline,
    "loader": loader,
    "transfer": transfer,
    "operators": operators,
}


def answer(request):
    return WORKLOADS[request["workload"]](request)


serve(answer)
