FROM scratch
ENV A=1 B="two words" C=thr\ ee D='$A' E= F=$A/${B:-x}
ENV legacy   some  value "quoted" 
ENV G=a=b \
    H=i
LABEL "com.example.a"="b c" d=e\
 f="multi \
line"
LABEL old style value
