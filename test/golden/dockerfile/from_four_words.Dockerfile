FROM a as b c
